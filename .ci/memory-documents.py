#!/usr/bin/env python3
"""Runs a command with AGENTLING_MEMORY_DOCUMENTS set to a folder of memory documents that others wrote.

They are made on the spot by the packages themselves, each with its own serialiser: the framework that this
service grew from, and Pydantic AI. The packages are installed by pip into a folder that goes away with the
command. Where that cannot be done, this says `skipped: ` and why, and succeeds.
"""

import os
import subprocess
import sys
import tempfile

PACKAGES = ["agentling==0.1.0", "pydantic-ai-slim==2.68.0"]
INSTALL_SECONDS = 240
HERE = os.path.dirname(os.path.abspath(__file__))
PYDANTIC = os.path.join(HERE, "../tests/data/memory_pydantic/make.py")


class Skip(Exception):
    """There are no such packages to be had here."""


def quietly(command, seconds):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Skip(f"installing took more than {seconds} s") from None
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if line.strip()] or ["no reason given"]
        raise Skip("installing failed: " + said[-1])


def run(command):
    with tempfile.TemporaryDirectory() as folder:
        # Other users run tests too.
        os.chmod(folder, 0o755)
        python = folder + "/venv/bin/python"
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        pip += ["--retries", "1", "--timeout", "15", "--only-binary", ":all:"]
        try:
            quietly([sys.executable, "-m", "venv", folder + "/venv"], INSTALL_SECONDS)
            quietly(pip + PACKAGES, INSTALL_SECONDS)
        except Skip as skip:
            print(f"skipped: {skip}")
            return 0
        for name in ("agentling", "pydantic_ai"):
            os.mkdir(f"{folder}/{name}")
        subprocess.run([python, os.path.abspath(__file__), "--make", folder + "/agentling"], check=True)
        subprocess.run([python, PYDANTIC, folder + "/pydantic_ai"], check=True)
        environment = dict(os.environ, AGENTLING_MEMORY_DOCUMENTS=folder)
        return subprocess.run(command, env=environment).returncode


def make(folder):
    """Writes documents with everything that the original framework has words for."""
    import agentling.memory as m
    from agentling.models import ChatMessage, ToolCall, Usage

    def write(name, *steps):
        memory = m.Memory()
        for step in steps:
            memory.add(step)
        with open(f"{folder}/{name}.json", "w", encoding="utf-8") as file:
            file.write(memory.dump_json())

    def said(content, *calls, **more):
        return ChatMessage(role="assistant", content=content, tool_calls=list(calls), **more)

    write("empty")
    write("plain", m.TaskStep("Où est Brest? 水 \U0001f9ed"), m.FinalStep("In Brittany.\n"),
          m.TaskStep(""), m.FinalStep(""))
    kinds = [None, "validation", "execution", "timeout", "unknown_tool"]
    calls = [ToolCall(id=f"c{n}", name=f"tool{n}", arguments={"z": 1.5, "a": [1, None, {"b": 1e-07}]})
             for n, _ in enumerate(kinds)]
    results = [m.ToolResult(call.id, call.name, f"came {kind}", kind is not None, kind)
               for call, kind in zip(calls, kinds)]
    write("tools", m.TaskStep("Go."),
          m.ActionStep(said("Let me see.", *calls), results, usage=Usage(3, 4), duration=0.25),
          m.ActionStep(said(None, ToolCall(id="d", name="t", arguments={})),
                       [m.ToolResult("d", "t", "no kind", True)], error="it went wrong"),
          m.FinalStep("Done."))
    write("usage", m.TaskStep("Count."),
          m.ActionStep(said("", usage=Usage(1, 2)), usage=Usage(5, 6), duration=1e-05),
          m.ActionStep(said("x", usage=Usage(0, 0))),
          m.ActionStep(said(None), error=""),
          m.FinalStep("3"))
    write("many", *[m.TaskStep(f"n {n}") for n in range(500)])


def compare(one, other):
    """Lets the original framework read two documents, which must be the same to it."""
    import agentling.memory as m

    first, second = (m.Memory.load_json(open(path, encoding="utf-8").read()) for path in (one, other))
    if first != second:
        sys.exit(f"not the same: {first}\n{second}")
    if first.to_messages("x") != second.to_messages("x"):
        sys.exit("not told in the same way")


if __name__ == "__main__":
    if sys.argv[1] == "--make":
        make(sys.argv[2])
    elif sys.argv[1] == "--compare":
        compare(*sys.argv[2:4])
    else:
        sys.exit(run(sys.argv[1:]))
