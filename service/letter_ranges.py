"""Writes which characters labels may have (labels.h), by Python's tables of Unicode.

    letter_ranges.py OUTPUT.cc
"""

import pathlib
import sys
import unicodedata


def ranges_of(is_wanted):
    ranges = []
    for point in range(sys.maxunicode + 1):
        if not is_wanted(unicodedata.category(chr(point))):
            continue
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return ", ".join(f"{{{first}, {last}}}" for first, last in ranges)


def function(name, is_wanted):
    return (
        f"const std::vector<CodeRange>& {name}() {{\n"
        f"static const std::vector<CodeRange> ranges = {{{ranges_of(is_wanted)}}};\nreturn ranges;\n}}\n"
    )


pathlib.Path(sys.argv[1]).write_text(
    '#include "service/labels.h"\nnamespace downpour {\n'
    + function("LowerCaseLetters", lambda category: category in ("Ll", "Lo"))
    + function("Numbers", lambda category: category[0] == "N")
    + "}  // namespace downpour\n"
)
