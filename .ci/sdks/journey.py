"""A journey through the API with the Python SDK that openapi-python-client makes of the document."""

import json
import os
import re

import httpx
from agentling_client import AuthenticatedClient, models
from agentling_client.api.agents import agents_create
from agentling_client.api.runs import runs_create_stream, runs_get, runs_post_tool_results, runs_stream
from agentling_client.api.threads import memory_export
from agentling_client.models import (
    Agent,
    AgentSpec,
    ClientTool,
    MemoryDocument,
    NewRun,
    NewToolResult,
    Problem,
    Run,
    RunCompletedEvent,
    RunRequiresActionEvent,
    StepRecordedEvent,
    TextDeltaEvent,
    ToolResults,
)

CLIENT = AuthenticatedClient(
    base_url=os.environ["AGENTLING_URL"], token=os.environ["AGENTLING_KEY"], timeout=httpx.Timeout(60))
AGENT = {
    "name": "traveller-py",
    "model": {"provider": "scripted", "name": "traveller-1", "script": [
        {"text": "Let me ask.", "chunks": 3,
         "tool_calls": [{"name": "ask_user", "arguments": {"question": "Which city?"}}]},
        {"tool_calls": [{"name": "final_answer", "arguments": {"answer": "It rains in Brest."}}]},
    ]},
    "tools": [{"kind": "client", "name": "ask_user", "description": "Asks the user.", "parameters": {
        "type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]}}],
}


def is_a(kind, value):
    assert isinstance(value, kind), f"expected {kind.__name__}, found {value!r}"
    return value


def event_model(event):
    """The SDK's model of an event, which is named after it."""
    words = re.split(r"[._]", event["event"])
    return getattr(models, "".join(word.capitalize() for word in words) + "Event").from_dict(event)


def stream(operation, **arguments):
    """The events of a stream as the SDK's models: it makes the request and reads each event."""
    request = operation._get_kwargs(**arguments)
    http = CLIENT.get_httpx_client()
    with http.stream(**request) as reply:
        assert reply.status_code == 200, reply.read()
        event = {}
        for line in reply.iter_lines():
            name, _, value = line.partition(": ")
            if name in ("id", "event", "data"):
                event[name] = value if name == "event" else json.loads(value)
            elif not line and event:
                yield event_model(event)
                event = {}


def main():
    # An agent, by typed models.
    agent = is_a(Agent, agents_create.sync(client=CLIENT, body=AgentSpec.from_dict(AGENT)))
    is_a(ClientTool, agent.tools[0])

    # A run, streamed until it waits for its client.
    waiting, pieces, kinds = None, "", []
    for event in stream(runs_create_stream, body=NewRun.from_dict({"agent_id": agent.id, "input": "Weather?"})):
        kinds.append(event.event)
        if isinstance(event, TextDeltaEvent):
            pieces += event.data.text
        if isinstance(event, RunRequiresActionEvent):
            waiting = event
            break
    assert pieces == "Let me ask.", (pieces, kinds)
    run = is_a(Run, waiting.data)
    assert run.requires_action.reason == "tool_results", run
    [call] = run.requires_action.tool_calls

    # The tool's result, and the rest of the run.
    results = ToolResults(results=[NewToolResult(tool_call_id=call.tool_call_id, output="Brest")])
    is_a(Run, runs_post_tool_results.sync(run.id, client=CLIENT, body=results))
    rest = list(stream(runs_stream, run_id=run.id, last_event_id=waiting.id))
    assert any(isinstance(event, StepRecordedEvent) for event in rest), rest
    assert is_a(RunCompletedEvent, rest[-1]).data.answer == "It rains in Brest."
    assert is_a(Run, runs_get.sync(run.id, client=CLIENT)).status == "completed"

    # The memory.
    memory = is_a(MemoryDocument, memory_export.sync(run.thread_id, client=CLIENT)).to_dict()
    assert len(memory["steps"]) >= 3, memory

    # Problems.
    missing = is_a(Problem, runs_get.sync("run_0198f2c4a1b27cde8f00112233445566", client=CLIENT))
    assert (missing.status, missing.type_) == (404, "/problems/not-found"), missing
    broken = AgentSpec.from_dict(AGENT | {"loop_limit": 1})
    refused = is_a(Problem, agents_create.sync(client=CLIENT, body=broken))
    assert (refused.status, refused.type_) == (422, "/problems/validation-failed"), refused
    assert [finding.pointer for finding in refused.errors] == ["/loop_limit"], refused
    print(f"python: {len(kinds)} events and then {len(rest)}, {len(memory['steps'])} steps, 2 problems")


main()
