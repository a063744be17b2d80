#!/usr/bin/env python3
"""Runs a command beside a server of its own, and stops the server with it.

The server has a private database that goes away with it, an API key and a key for secrets. The command finds
AGENTLING_URL and AGENTLING_KEY set. AGENTLING_BIN names another program than the one that cargo builds.
"""

import base64
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
START_SECONDS = 120


def program():
    """The server's program, built if none is named."""
    if "AGENTLING_BIN" in os.environ:
        return os.environ["AGENTLING_BIN"]
    subprocess.run(["cargo", "build", "--locked", "--quiet", "--bin", "agentling"], cwd=ROOT, check=True)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", ROOT + "/target"), "debug", "agentling")


def know_no_name():
    """Serves DNS in which no name exists, so that the URLs of examples lead nowhere, and at once; its port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("127.0.0.1", 0))

    def answer():
        while True:
            asked, peer = listener.recvfrom(4096)
            # The identifier and the question come back, with "no such name" and without any record.
            question = asked[12:asked.index(b"\0", 12) + 5]
            listener.sendto(asked[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + question, peer)

    threading.Thread(target=answer, daemon=True).start()
    return listener.getsockname()[1]


def start(folder, key):
    """Starts the server; answers it once it is there, and its address."""
    settings = {
        "AGENTLING_DATA_DIR": folder + "/data",
        "AGENTLING_LISTEN": "127.0.0.1:0",
        "AGENTLING_API_KEY": key,
        "AGENTLING_SECRET_KEYS": "ci=" + base64.b64encode(secrets.token_bytes(32)).decode(),
        "AGENTLING_LOG_FORMAT": "json",
        "AGENTLING_EGRESS_DNS": "127.0.0.1:%d" % know_no_name(),
    }
    kept = {name: value for name, value in os.environ.items()
            if name != "DATABASE_URL" and not name.startswith("AGENTLING_")}
    with open(folder + "/server.log", "wb") as log:
        server = subprocess.Popen([program(), "serve"], env=kept | settings, stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log, start_new_session=True)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        said = re.search(r"127\.0\.0\.1:[1-9]\d*", log_of(folder))
        if said and is_ready("http://" + said[0]):
            return server, "http://" + said[0]
        time.sleep(0.1)
    stop(server)
    raise SystemExit("the server does not start:\n" + log_of(folder))


def log_of(folder):
    with open(folder + "/server.log", encoding="utf-8", errors="replace") as log:
        return log.read()


def is_ready(url):
    try:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return direct.open(url + "/readyz", timeout=5).status == 200
    except OSError:
        return False


def stop(server):
    server.terminate()
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def main(command):
    folder = tempfile.mkdtemp(prefix="agentling-served.")
    # As root, PostgreSQL runs as somebody else and must reach its data.
    os.chmod(folder, 0o755)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    key = "ci-" + secrets.token_hex(16)
    try:
        server, url = start(folder, key)
        try:
            environment = dict(os.environ, AGENTLING_URL=url, AGENTLING_KEY=key)
            status = subprocess.run(command, env=environment, check=False).returncode
            if server.poll() is not None:
                print("the server ended meanwhile:\n" + log_of(folder)[-4000:], file=sys.stderr)
                return 1
            panics = [line for line in log_of(folder).splitlines() if "panicked" in line]
            if panics:
                print("the server panicked:\n" + "\n".join(panics[:5]), file=sys.stderr)
                return 1
            if status:
                failed = [line for line in log_of(folder).splitlines() if '"problem":"internal"' in line]
                print("\n".join(failed[:10]), file=sys.stderr)
            return status
        finally:
            stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
