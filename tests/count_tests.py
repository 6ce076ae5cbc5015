"""Counts the test cases of Meson's reports, names the slowest programs, and prints the closing line.

    count_tests.py build/meson-logs       exits 1 if any failed or none ran
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


SLOWEST = 10


def print_slowest(log):
    runs = [json.loads(line) for line in log.read_text().splitlines()]
    for run in sorted(runs, key=lambda run: -run["duration"])[:SLOWEST]:
        print(f"{run['duration']:7.1f} s  {run['name']}")


def count(report):
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            failed += 1
            print(f"FAILED: {case.get('classname')} {case.get('name')}")
        elif "skipped" in outcomes or case.get("result") == "skipped":
            skipped += 1
            print(f"skipped: {case.get('classname')} {case.get('name')}")
        else:
            passed += 1
    return passed, failed, skipped


if __name__ == "__main__":
    logs = pathlib.Path(sys.argv[1])
    print_slowest(logs / "testlog.json")
    passed, failed, skipped = count(logs / "testlog.junit.xml")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not passed else 0)
