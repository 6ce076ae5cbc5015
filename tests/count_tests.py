"""Counts the test cases of Meson's reports, names the slowest programs, shows how the failed ones ended, and prints the
closing line.

    count_tests.py build/meson-logs       exits 1 if any failed or none ran
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

SLOWEST = 10
LAST_LINES = 15
LAST_BYTES = 4000


def print_slowest(runs):
    for run in sorted(runs, key=lambda run: -run["duration"])[:SLOWEST]:
        print(f"{run['duration']:7.1f} s  {run['name']}")


def print_endings(runs):
    for run in runs:
        print(f"{run['name']} ended in {run['result']}, its last lines:")
        for stream in ("stderr", "stdout"):
            for line in run.get(stream, "")[-LAST_BYTES:].splitlines()[-LAST_LINES:]:
                print(line)


def count(report, broken):
    """`broken`: the programs that failed, also those that were cut short and of whose cases the report says nothing."""
    passed = failed = skipped = 0
    unexplained = set(broken)
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            outcomes = {child.tag for child in case}
            if outcomes & {"failure", "error"} or case.get("name") in broken:
                failed += 1
                print(f"FAILED: {case.get('classname')} {case.get('name')}")
                unexplained -= {name for name in broken if name == case.get("name") or f"{name}." in suite.get("name")}
            elif "skipped" in outcomes or case.get("result") == "skipped":
                skipped += 1
                print(f"skipped: {case.get('classname')} {case.get('name')}")
            else:
                passed += 1
    for name in sorted(unexplained):
        print(f"FAILED: {name}, though none of its cases says so")
    return passed, failed + len(unexplained), skipped


def main(logs):
    runs = [json.loads(line) for line in (logs / "testlog.json").read_text().splitlines()]
    broken = [run for run in runs if run["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")]
    print_slowest(runs)
    print_endings(broken)
    passed, failed, skipped = count(logs / "testlog.junit.xml", {run["name"] for run in broken})
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
