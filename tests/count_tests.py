"""Counts the test cases of Meson's JUnit report and prints the closing line. Exits 1 if any failed or none ran."""

import sys
import xml.etree.ElementTree as ElementTree


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
    passed, failed, skipped = count(sys.argv[1])
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not passed else 0)
