#!/usr/bin/env python3
"""What ninja has to build before tests of some suites run: one target on each line. `all` where that is not known.

    tests/targets_of_suites.py BUILD [--suite NAME]... [more arguments of `meson test`]

A test that is a program of the build names it. A script that is given the build folder may start any program in it.
"""

import json
import os
import subprocess
import sys


def targets(build, suites):
    """Of all tests in the suites; None: all that there are."""
    def introspect(what):
        said = subprocess.run(["/usr/bin/meson", "introspect", build, what], check=True, capture_output=True).stdout
        return json.loads(said)

    files = {t["id"]: [os.path.relpath(f, build) for f in t["filename"]] for t in introspect("--targets")}
    found = set()
    tests = [t for t in introspect("--tests") if {s.rpartition(":")[2] for s in t["suite"]} & suites]
    for test in tests:
        words = [*test["cmd"][1:], *test["env"].values()]
        if any(os.path.realpath(build) == os.path.realpath(word) for word in words):
            return None
        found.update(file for target in test["depends"] for file in files.get(target, []))
    return found if tests else None


def main(build, *words):
    suites = {words[i + 1] for i, word in enumerate(words[:-1]) if word == "--suite"}
    suites |= {word.partition("=")[2] for word in words if word.startswith("--suite=")}
    # Any other argument may choose further tests, or others.
    others = [w for i, w in enumerate(words) if not w.startswith("--suite") and (i == 0 or words[i - 1] != "--suite")]
    needed = targets(build, suites) if suites and not others else None
    print("\n".join(["all"] if needed is None else sorted(needed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
