"""Writes the documents beside this script with Pydantic AI's own serialiser.

Made with pydantic-ai-slim 2.68.0 (`pip install pydantic-ai-slim==2.68.0`); run it by hand, the tests
only read what it wrote. `retry-prompt` parts, which that version turns into newer parts when it reads
them, are serialised as the version that still wrote them did: from the part itself. `legacy.json` is
the shape of versions before 1.0 and is written out here by hand.
"""

import json
import sys
import warnings
from datetime import datetime, timezone
from pathlib import Path

from pydantic_ai import messages as m
from pydantic_ai.usage import RequestUsage
from pydantic_core import to_jsonable_python

warnings.simplefilter("ignore")
# Elsewhere when a folder is named.
HERE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
AT = datetime(2026, 3, 14, 15, 9, 26, tzinfo=timezone.utc)


def write(name, messages):
    text = m.ModelMessagesTypeAdapter.dump_json(messages, indent=1).decode()
    (HERE / f"{name}.json").write_text(text + "\n")


def request(*parts, **more):
    return m.ModelRequest(parts=list(parts), timestamp=AT, **more)


def user(content):
    return m.UserPromptPart(content=content, timestamp=AT)


def response(*parts, **more):
    return m.ModelResponse(parts=list(parts), timestamp=AT, **more)


def returned(name, call, content, **more):
    return m.ToolReturnPart(
        tool_name=name, content=content, tool_call_id=call, timestamp=AT, **more
    )


DETAILS = [
    {"type": "missing", "loc": ("berth",), "msg": "Field required", "input": {"b": 1, "a": [2]}},
    {
        "type": "greater_than",
        "loc": ("tide", 0),
        "msg": "Input should be greater than 0",
        "input": -1,
        "ctx": {"gt": 0},
    },
]

write(
    "plain",
    [
        request(m.SystemPromptPart(content="You know every harbour.", timestamp=AT), user("Where is Brest?")),
        response(
            m.TextPart(content="On the Atlantic.", id="msg_1", provider_name="openai"),
            usage=RequestUsage(
                input_tokens=41,
                output_tokens=9,
                cache_read_tokens=32,
                details={"reasoning_tokens": 4, "audio_tokens": 0},
            ),
            model_name="gpt-5-mini",
            provider_name="openai",
            provider_response_id="chatcmpl-1",
            provider_details={"finish_reason": "stop"},
            finish_reason="stop",
            run_id="r1",
        ),
        request(
            user(["And", m.TextContent(content="Calais?", metadata={"page": 2}), m.CachePoint()]),
            instructions="Answer in one sentence.",
            metadata={"trace": "t"},
        ),
        response(
            m.ThinkingPart(content="They mean the port.", signature="c2ln", id="rs_1", provider_name="openai"),
            m.ThinkingPart(content="", signature="b3BhcXVl", id="redacted_thinking", provider_name="anthropic"),
            m.TextPart(content="On the Channel."),
            finish_reason="length",
            state="interrupted",
            provider_name="anthropic",
        ),
    ],
)

write(
    "tools",
    [
        request(user("How deep is the berth?")),
        response(
            m.TextPart(content="Let me look."),
            m.ToolCallPart(tool_name="depth", args='{ "z":1.50, "a":1E+2 }', tool_call_id="call_text"),
            m.ToolCallPart(tool_name="depth", args={"z": 1, "a": {"y": [True, None], "x": "é"}}, tool_call_id="call_object"),
            m.ToolCallPart(tool_name="tide", args=None, tool_call_id="call_none"),
            m.ToolCallPart(tool_name="crane", args="{}", tool_call_id="call_failed"),
            m.ToolCallPart(tool_name="crane", args="", tool_call_id="call_denied"),
            m.ToolCallPart(tool_name="crane", args="{}", tool_call_id="call_interrupted"),
            finish_reason="tool_call",
        ),
        # In the order in which the tools ended, and spread over two requests.
        request(
            returned("crane", "call_denied", "Ask the harbour master.", outcome="denied"),
            returned("depth", "call_object", {"metres": 11.5, "at": ["low", "high"]}),
            returned("depth", "call_text", "eleven"),
            returned("crane", "call_failed", "the crane is stuck", outcome="failed"),
        ),
        request(
            returned("crane", "call_interrupted", "The run ended.", outcome="interrupted"),
            returned("tide", "call_none", None),
            user("Well?"),
        ),
        response(m.TextPart(content="Eleven metres.")),
    ],
)

write(
    "feedback",
    [
        request(user("Name a berth.")),
        response(m.TextPart(content="{}")),
        request(m.RetryFeedbackPart(content=DETAILS, retry=m.RetryInfo(cause="validation_error", attempt=1, max_retries=2), timestamp=AT)),
        response(m.TextPart(content="North")),
        request(m.RetryFeedbackPart(content="North is no berth.", retry=m.RetryInfo(cause="model_retry"), timestamp=AT)),
        response(m.ThinkingPart(content="Hm.")),
        request(m.RetryFeedbackPart(content="Please return text or call a tool.", retry=m.RetryInfo(cause="no_output"), timestamp=AT)),
        response(m.ThinkingPart(content="Hm?")),
        request(m.RetryFeedbackPart(content="Obey the harbour master.", retry=m.RetryInfo(cause="no_output"), timestamp=AT)),
        response(m.ToolCallPart(tool_name="berth", args='{"n":"x"}', tool_call_id="c1")),
        request(returned("berth", "c1", [{"type": "int_parsing", "loc": ["n"], "msg": "not a number"}], outcome="retried", retry=m.RetryInfo(cause="validation_error"))),
        response(m.ToolCallPart(tool_name="birth", args="{}", tool_call_id="c2")),
        request(returned("birth", "c2", "Unknown tool name: 'birth'.", outcome="retried", retry=m.RetryInfo(cause="unknown_tool"))),
        response(m.TextPart(content="Berth 7.")),
    ],
)

write(
    "kept",
    [
        request(
            m.SystemPromptPart(content="Two calls are left.", timestamp=AT, scope="request"),
            m.ToolAvailabilityDeltaPart(tools_added=["tide"]),
            m.InstructionDeltaPart(id="toolset:a", content="Use the tide table."),
            user("Draw the harbour."),
        ),
        response(
            m.NativeToolCallPart(tool_name="web_search", args={"query": "harbour"}, tool_call_id="srv_1", provider_name="openai"),
            m.NativeToolReturnPart(tool_name="web_search", content={"hits": 0}, tool_call_id="srv_1", timestamp=AT, provider_name="openai"),
            m.FilePart(content=m.BinaryContent(data=b"\x89PNG", media_type="image/png"), id="f1", provider_name="google"),
            m.CompactionPart(content="A harbour was drawn.", provider_name="openai"),
            m.TextPart(content="Here it is."),
        ),
    ],
)

SNAP = m.BinaryContent(data=b"\x89PN\xfb\xff", media_type="image/png", identifier="snap")

write(
    "files",
    [
        request(
            user(
                [
                    "Which harbour is this?",
                    m.ImageUrl(url="https://example.com/harbour.png"),
                    m.BinaryContent(data=b"\x89PN\xfb\xff", media_type="image/png", identifier="chart"),
                    m.BinaryContent(data=b"low", media_type="text/plain", identifier="tides.txt"),
                    m.DocumentUrl(url="https://example.com/pilot.pdf"),
                    m.AudioUrl(url="https://example.com/horn.mp3"),
                ]
            )
        ),
        response(
            m.ToolCallPart(tool_name="camera", args="{}", tool_call_id="call_alone"),
            m.ToolCallPart(tool_name="camera", args="{}", tool_call_id="call_text"),
            m.ToolCallPart(tool_name="camera", args="{}", tool_call_id="call_list"),
        ),
        request(
            returned("camera", "call_alone", SNAP),
            returned("camera", "call_text", ["Here.", SNAP]),
            returned("camera", "call_list", [{"n": 1}, SNAP, "two", SNAP]),
        ),
        response(m.TextPart(content="Brest.")),
    ],
)

# Documents with `retry-prompt`, by the part that older versions wrote.


def retry_prompt(**fields):
    return to_jsonable_python(m.RetryPromptPart(timestamp=AT, **fields))


def with_prompts(name, messages):
    text = json.dumps(to_jsonable_python(messages), indent=1, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(text + "\n")


def prompted(*parts):
    message = to_jsonable_python(m.ModelRequest(parts=[], timestamp=AT))
    return message | {"parts": list(parts)}


with_prompts(
    "prompts",
    [
        request(user("Name a berth.")),
        response(m.TextPart(content="{}")),
        prompted(retry_prompt(content=DETAILS, tool_call_id="pyd_ai_1")),
        response(m.TextPart(content="North")),
        prompted(retry_prompt(content="North is no berth.", tool_call_id="pyd_ai_2")),
        response(m.ThinkingPart(content="Hm.")),
        prompted(retry_prompt(content="Please return text.", tool_call_id="pyd_ai_3") | {"cause": "no_output"}),
        response(m.ThinkingPart(content="Hm?")),
        prompted(retry_prompt(content=DETAILS[:1], tool_call_id="pyd_ai_4") | {"cause": "no_output"}),
        response(
            m.ToolCallPart(tool_name="berth", args={"n": "x"}, tool_call_id="c1"),
            m.ToolCallPart(tool_name="berth", args='{"n":-1}', tool_call_id="c2"),
            m.ToolCallPart(tool_name="berth", args='{"n":7}', tool_call_id="c3"),
        ),
        prompted(
            retry_prompt(content=DETAILS, tool_name="berth", tool_call_id="c1"),
            retry_prompt(content="No berth has such a number.", tool_name="berth", tool_call_id="c2") | {"cause": "error"},
            retry_prompt(content="Please call a tool.", tool_name="berth", tool_call_id="c3") | {"cause": "no_output"},
        ),
        response(m.TextPart(content="Berth 7.")),
    ],
)

LEGACY = [
    {
        "kind": "request",
        "parts": [
            {"part_kind": "system-prompt", "content": "You know every harbour.", "timestamp": "2024-11-30T12:00:00Z", "dynamic_ref": None},
            {"part_kind": "user-prompt", "content": "How deep is it?", "timestamp": "2024-11-30T12:00:00Z"},
        ],
    },
    {
        "kind": "response",
        "model_name": "gpt-4o",
        "timestamp": "2024-11-30T12:00:01Z",
        "usage": {"requests": 1, "request_tokens": 12, "response_tokens": 5, "total_tokens": 17, "details": None},
        "vendor_id": "chatcmpl-0",
        "vendor_details": None,
        "parts": [{"part_kind": "tool-call", "tool_name": "depth", "args": '{"at": "quay"}', "tool_call_id": "call_1"}],
    },
    {
        "kind": "request",
        "instructions": None,
        "parts": [
            {"part_kind": "retry-prompt", "content": "Say which quay.", "tool_name": "depth", "tool_call_id": "call_1", "timestamp": "2024-11-30T12:00:02Z"}
        ],
    },
    {
        "kind": "response",
        "model_name": None,
        "timestamp": "2024-11-30T12:00:03Z",
        "parts": [{"part_kind": "text", "content": "Which quay?"}],
    },
]
with_prompts("legacy", LEGACY)
