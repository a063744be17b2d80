"""Things for the parameters of paths to name, made through the API itself."""

import json
import time
import urllib.error
import urllib.request

SCRIPT = {"provider": "scripted", "name": "seed-1"}
ASK = {"kind": "client", "name": "ask_user", "description": "Asks the user.",
       "parameters": {"type": "object", "properties": {"question": {"type": "string"}}}}
PAY = {"kind": "http", "name": "pay", "description": "Pays.", "method": "POST",
       "url": "https://pay.example/pay", "approval": "always",
       "parameters": {"type": "object", "properties": {}}}


class Api:
    """A client of the API as it is, without a generated SDK."""

    def __init__(self, url, key):
        self.url, self.key = url, key
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __call__(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": "Bearer " + self.key, "content-type": "application/json"} | headers
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with self.opener.open(request, timeout=60) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    def document(self):
        return self("GET", "/openapi.json")


def call(name, **arguments):
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def waiting(api, agent):
    """A run of an agent that waits for a caller."""
    return api("POST", "/v1/runs", {"agent_id": agent, "input": "Go on."}, prefer="wait=30")


def seed(api):
    """The values of each parameter of a path, by its name."""
    stamp = f"{time.time_ns():x}"
    answer = call("final_answer", answer="Done.")
    agents = {
        "seed": {"script": [answer]},
        "asks": {"script": [call("ask_user", question="Which?"), answer], "tools": [ASK]},
        "pays": {"script": [call("pay"), answer], "tools": [PAY]},
    }
    ids = {}
    for name, agent in agents.items():
        body = {"name": f"{name}-{stamp}", "model": SCRIPT | {"script": agent["script"]},
                "tools": agent.get("tools", [])}
        ids[name] = api("POST", "/v1/agents", body)["id"]
    done, asks, pays = (waiting(api, ids[name]) for name in agents)
    made = {
        "agent_id": list(ids.values()),
        "thread_id": [run["thread_id"] for run in (done, asks, pays)],
        "run_id": [run["id"] for run in (done, asks, pays)],
        "other_run_id": [done["id"]],
        "call_id": [run["requires_action"]["tool_calls"][0]["tool_call_id"] for run in (asks, pays)],
        "block_id": ["house_rules"],
        "version": ["1"],
        "n": ["1"],
    }
    made["owner_id"] = made["agent_id"] + made["thread_id"]
    steps = api("GET", f"/v1/runs/{done['id']}/steps")["items"]
    made["step_id"] = [step["id"] for step in steps]
    requests = api("GET", f"/v1/runs/{done['id']}/requests")["items"]
    made["request_id"] = [request["id"] for request in requests]
    listed(api, made)
    return made


def listed(api, made):
    """Adds what the document's own examples create, and what its lists then hold."""
    document = api.document()
    for path, item in document["paths"].items():
        rest = path.rsplit("/", 1)
        if not rest[-1].startswith("{") or "{" in rest[0] or "get" not in document["paths"].get(rest[0], {}):
            continue
        name = rest[-1].strip("{}")
        if name in made:
            continue
        create_example(api, document, rest[0])
        items = api("GET", rest[0])["items"]
        made[name] = [found for entry in items if (found := entry.get(name, entry.get("id", entry.get("name"))))]


def create_example(api, document, path):
    content = document["paths"][path].get("post", {}).get("requestBody", {}).get("content", {})
    example = content.get("application/json", {}).get("example")
    if example is None:
        return
    try:
        api("POST", path, example)
    except urllib.error.HTTPError:
        # It may be there already, or need what is not here.
        pass
