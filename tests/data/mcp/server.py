"""An MCP server for tests. MCP_PORT: where it listens (stdio without it). MCP_LOG: a file that is told of
every call. MCP_TOOLS: names of further tools, separated by spaces."""

import asyncio
import os
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image

server = MCPServer("tests", version="1", log_level="ERROR")


def log(line: str) -> None:
    if path := os.environ.get("MCP_LOG"):
        with open(path, "a") as file:
            file.write(line + "\n")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    log("add")
    return a + b


@server.tool(structured_output=False)
def fail(why: str) -> str:
    """Fails."""
    log("fail")
    raise ValueError(why)


@server.tool(structured_output=False)
async def slow(seconds: float) -> str:
    """Takes a while."""
    log("slow")
    await asyncio.sleep(seconds)
    log("slow done")
    return "slept"


@server.tool(structured_output=False)
async def progress(steps: int, ctx: Context) -> str:
    """Reports progress, five times a second."""
    log("progress")
    for step in range(steps):
        await ctx.report_progress(step, steps, "still here")
        await asyncio.sleep(0.2)
    return "arrived"


@server.tool(structured_output=False)
def large(chars: int) -> str:
    """Says a lot."""
    return "x" * chars


@server.tool(structured_output=False)
def picture() -> Image:
    """Shows a picture."""
    return Image(data=b"\x89PNG\r\n\x1a\n" + bytes(16), format="png")


@server.tool(structured_output=False)
def header(name: str, ctx: Context) -> str:
    """Repeats a header of the request."""
    return f"{name}: {ctx.request_context.request.headers.get(name)}"


@server.tool(structured_output=False)
def environment() -> str:
    """Names the variables of its environment."""
    return " ".join(sorted(os.environ))


@server.tool(structured_output=False)
def mutter(text: str) -> str:
    """Says something on its error output only."""
    print(text, file=sys.stderr, flush=True)
    return "said"


@server.tool(structured_output=False)
def quit() -> str:
    """Ends the server in the middle of the call."""
    log("quit")
    os._exit(3)


@server.tool(structured_output=False)
async def change(ctx: Context) -> str:
    """Takes a tool away and adds another."""
    log("change")
    server.remove_tool("picture")
    server.add_tool(lambda: "new", name="newcomer", description="Came late.")
    return "changed"


for name in os.environ.get("MCP_TOOLS", "").split():
    server.add_tool(lambda name=name: name, name=name, description=f"The tool {name}.")

if port := os.environ.get("MCP_PORT"):
    server.run("streamable-http", host="127.0.0.1", port=int(port))
else:
    server.run("stdio")
