#!/usr/bin/env python3
"""Holds a real server to its OpenAPI document, by schemathesis and all its checks.

schemathesis is installed into a scratch folder that goes away again. Where that cannot be done, this says
`skipped: ` and why, and succeeds. AGENTLING_SCHEMATHESIS_EXAMPLES asks for more cases than CI has time for.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "schemathesis==4.32.5"
INSTALL_SECONDS = 240
# The cases of the `coverage` phase follow from the document; this bounds the random ones, by operation.
EXAMPLES = os.environ.get("AGENTLING_SCHEMATHESIS_EXAMPLES", "8")
RUN_SECONDS = int(os.environ.get("AGENTLING_SCHEMATHESIS_SECONDS", "600"))
LEAST_CASES = 5000


def install(folder):
    """Makes a virtual environment; answers why it cannot be made, if so."""
    pip = [folder + "/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pip += ["--retries", "1", "--timeout", "15", "--only-binary", ":all:", PACKAGE]
    for command in ([sys.executable, "-m", "venv", folder], pip):
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"installing took more than {INSTALL_SECONDS} s"
        if done.returncode:
            return "installing failed: " + (done.stdout.strip().splitlines() or ["no reason given"])[-1]
    return None


def run(folder):
    """Runs it beside a server; answers its exit status."""
    command = [os.path.join(os.path.dirname(HERE), "with-server.py"), sys.executable, __file__, "--inside", folder]
    return subprocess.run(command, timeout=RUN_SECONDS, check=False).returncode


def inside(folder):
    """What runs beside the server: the cases, and the count of them."""
    environment = dict(os.environ, PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE="1", SCHEMATHESIS_HOOKS="hooks",
                       NO_PROXY="127.0.0.1")
    command = [folder + "/bin/schemathesis", "--config-file", HERE + "/schemathesis.toml", "run",
               os.environ["AGENTLING_URL"] + "/openapi.json", "--max-examples", EXAMPLES, "--no-color"]
    command += os.environ.get("AGENTLING_SCHEMATHESIS_ARGUMENTS", "").split()
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        said = ""
        for line in process.stdout:
            said += line
            print(line, end="", flush=True)
    counted = re.search(r"^\s*(\d+) generated", said, re.MULTILINE)
    cases = int(counted[1]) if counted else 0
    print(f"schemathesis: {cases} cases")
    if cases < LEAST_CASES:
        print(f"schemathesis: fewer than {LEAST_CASES} cases were generated", file=sys.stderr)
        return 1
    return process.returncode


def main():
    folder = tempfile.mkdtemp(prefix="agentling-schemathesis.")
    try:
        reason = install(folder)
        if reason:
            print("skipped: no schemathesis: " + reason)
            return 0
        return run(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(inside(sys.argv[2]) if sys.argv[1:2] == ["--inside"] else main())
