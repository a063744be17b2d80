"""What schemathesis is told of this API, and what is checked beside its own checks."""

import json
import os
import re
import urllib.request

import schemathesis
from schemathesis.core.deserialization import _parse_sse_events
from schemathesis.core.failures import Failure
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode

from seed import Api, seed

API = Api(os.environ["AGENTLING_URL"], os.environ["AGENTLING_KEY"])
DOCUMENT = API.document()
# Deletions and archivings eat what was made, so it is made again from time to time.
SEED_AGAIN_AFTER = 400

PROBLEM = "application/problem+json"


def catalogue():
    """The status of each slug, from the page that callers are pointed to."""
    with API.opener.open(API.url + "/problems", timeout=60) as reply:
        page = reply.read().decode()
    rows = re.findall(r"<tr><td>(\d+)</td><td><a href=\"/problems/([a-z0-9-]+)\">", page)
    assert len(rows) > 50, "the page of problems reads otherwise"
    return {slug: int(status) for status, slug in rows}


CATALOGUE = catalogue()
# Answers to requests that are no operation of the document.
ROUTING = {"method-not-allowed", "not-found"}


class Pool:
    """Values for the parameters of paths."""

    def __init__(self):
        self.values, self.asked = seed(API), 0

    def fill(self, case):
        self.asked += 1
        if self.asked % SEED_AGAIN_AFTER == 0:
            self.values = seed(API)
        for name in case.path_parameters:
            known = self.values.get(name)
            if known:
                case.path_parameters[name] = known[self.asked % len(known)]


POOL = Pool()


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """What the document leaves open for later versions is closed for this one."""
    close(raw_schema)


def close(value):
    if isinstance(value, dict):
        if "x-known-values" in value:
            value["enum"] = value["x-known-values"]
        for member in value.values():
            close(member)
    elif isinstance(value, list):
        for member in value:
            close(member)


# A tool of a server that cannot be reached is waited for, in case the server is only starting.
WAITS = 3


class Waits:
    """How often a server that leads nowhere may still be waited for."""

    def __init__(self):
        self.left = WAITS

    def spare(self, case):
        """Names a server that is not known once enough has been waited."""
        tool = case.body.get("tool") if isinstance(case.body, dict) else None
        if case.path != "/v1/tools/test" or not isinstance(tool, dict) or not isinstance(tool.get("server"), str):
            return
        self.left -= 1
        if self.left < 0:
            tool["server"] = "nobody"


PATIENCE = Waits()


@schemathesis.hook
def before_call(context, case, kwargs):
    """Three of four valid requests are about something that exists."""
    PATIENCE.spare(case)
    meta = case.meta
    path = meta and meta.components.get(ParameterLocation.PATH)
    is_valid = path is None or path.mode == GenerationMode.POSITIVE
    stateful = meta and meta.phase.name.value == "stateful"
    if not case.path_parameters or not is_valid or stateful or case.method.upper() == "DELETE":
        return
    if POOL.asked % 4 == 3:
        POOL.asked += 1
    else:
        POOL.fill(case)


@schemathesis.deserializer("text/event-stream")
def events(context, response):
    """Events as the document describes them: with JSON for `data`, and a number for `id`."""
    found = []
    for event in _parse_sse_events(response.content):
        event = {"event": event["event"], "data": json.loads(event["data"])} | (
            {"id": int(event["id"])} if "id" in event else {})
        found.append(event)
    return found


@schemathesis.check
def catalogued_problem(context, response, case):
    """Every refusal is a problem that `/problems` explains, of the status and operation it is documented for."""
    if response.status_code < 400:
        return
    media = (response.headers.get("content-type") or [""])[0]
    if media.split(";")[0] != PROBLEM:
        raise Failure(operation=case.operation.label, title="No problem", message=f"{response.status_code} with {media!r}")
    problem = response.json()
    wrong = complaint(problem, response, case)
    if wrong:
        raise Failure(operation=case.operation.label, title="Wrong problem", message=f"{wrong}: {problem}")


def complaint(problem, response, case):
    slug = problem.get("type", "").removeprefix("/problems/")
    if slug not in CATALOGUE:
        return "it is not catalogued"
    if not problem["status"] == response.status_code == CATALOGUE[slug]:
        return f"the status is {response.status_code}, and {CATALOGUE[slug]} by the catalogue"
    request_id = (response.headers.get("x-request-id") or [""])[0]
    if problem.get("instance") != "urn:request:" + request_id:
        return "it does not say which request it is about"
    if response.status_code in (429, 503) and "retry-after" not in response.headers:
        return "it does not say when to try again"
    operation = DOCUMENT["paths"][case.operation.path].get(case.method.lower())
    documented = set(operation["x-problems"]) if operation else set()
    if slug not in documented | ROUTING:
        return "the operation does not document it"
    return None


# What a schema can say of a body or a parameter, and therefore has to.
SHAPE = {"missing_field", "invalid_type", "wrong_type", "not_an_object", "unknown_field", "unknown_parameter",
         "length", "too_few", "too_many", "out_of_range"}
# Rules about several values at once, or about what is stored, which a schema has no words for.
RULES = [
    re.compile(pattern) for pattern in (
        r"^/at_seq$|^/through_seq$|^/edits/\d+/seq$",  # a step of the thread in question
        r"^created_before$",  # not before `created_after`
        r"^from$",  # before `to`, and at most 366 days
        r"^/expires_at$",  # ahead of the day of the request
    )
]
# Memory documents and skills as files have formats of their own, which the document does not tell.
OWN_FORMAT = {"memory-load-error", "skill-load-error"}


@schemathesis.check
def valid_requests_are_taken(context, response, case):
    """What fits the document is refused only for a reason that the document cannot tell."""
    if response.status_code not in (400, 413, 415, 422) or case.meta is None:
        return
    if case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    problem = response.json()
    if problem["type"].rsplit("/", 1)[-1] in OWN_FORMAT or case.media_type == "text/markdown":
        return
    for finding in problem.get("errors", []):
        pointer, code = finding["pointer"], finding["code"]
        # A whole number is written without a fraction, also where the fraction is zero.
        is_written_otherwise = finding["message"].startswith("expected a whole number")
        if code in SHAPE and not is_written_otherwise and not any(rule.search(pointer) for rule in RULES):
            raise Failure(operation=case.operation.label, title="Valid request refused", message=f"{pointer}: {code}: {finding['message']}")
