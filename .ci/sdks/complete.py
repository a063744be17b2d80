#!/usr/bin/env python3
"""Fails where a generated SDK lacks an operation of the document."""

import json
import pathlib
import re
import sys


def main(document, python, typescript):
    with open(document, encoding="utf-8") as file:
        paths = json.load(file)["paths"]
    wanted = {operation["operationId"] for item in paths.values() for operation in item.values()}
    modules = {path.stem for path in pathlib.Path(python, "api").glob("*/*.py")}
    functions = set(re.findall(r"^export const (\w+) =", pathlib.Path(typescript).read_text("utf-8"), re.MULTILINE))
    camel = {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): name for name in wanted}
    missing = [f"python: {name}" for name in sorted(wanted - modules)]
    missing += [f"typescript: {camel[name]}" for name in sorted(camel.keys() - functions)]
    print("\n".join(missing) or f"{len(wanted)} operations in both")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
