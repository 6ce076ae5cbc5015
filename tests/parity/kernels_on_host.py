#!/usr/bin/env python3
"""Makes C++ for the host of a CUDA source: each launch becomes a call of cuda_stand_in_device.h, and all else stays.

    kernels_on_host.py ROOT SOURCE OUTPUT DEPFILE

SOURCE, and the .cuh files that it includes, are named from ROOT. Exits 1, with the place, where it meets a launch or
memory of a block that it cannot turn.
"""

import pathlib
import re
import sys

LAUNCH = re.compile(r"(?P<kernel>[A-Za-z_][\w:]*)<<<")
SHARED = re.compile(r"__shared__ (?P<type>\w+(?: \w+)*) (?P<name>\w+)(?P<extents>(?:\[[^][]+\])*);")
INCLUDE = re.compile(r'#include "(?P<path>[^"]+\.cuh)"')
PAIRS = {"(": ")", "[": "]", "{": "}"}


class CannotTurn(Exception):
    """Says what, and where it begins in the text."""

    def __init__(self, what, begin):
        super().__init__(what)
        self.begin = begin


def end_of(text, begin, end):
    """Where `end` stands that closes what was open before `begin`."""
    closing = [end]
    at = begin
    while at < len(text):
        if text.startswith(closing[-1], at):
            closing.pop()
            if not closing:
                return at
        elif text[at] in PAIRS:
            closing.append(PAIRS[text[at]])
        elif text[at] in ";\"'" or text[at] in PAIRS.values():
            break
        at += 1
    raise CannotTurn(f"no {end} ends it", begin)


def turned(text):
    declared = r"static \g<type> \g<name>\g<extents>; ::downpour::BeginSharedMemory(&\g<name>, sizeof(\g<name>));"
    for keyword in re.finditer(r"__shared__", text):
        if not SHARED.match(text, keyword.start()) or re.search(r"extern\s+$", text[: keyword.start()]):
            raise CannotTurn("not one variable of a size that is known", keyword.start())
    text = SHARED.sub(declared, text)
    parts, at = [], 0
    while launch := LAUNCH.search(text, at):
        config_end = end_of(text, launch.end(), ">>>")
        config = text[launch.end() : config_end]
        if not text.startswith("(", config_end + 3):
            raise CannotTurn("a launch without arguments", launch.start())
        begin = config_end + 4
        end = end_of(text, begin, ")")
        if not text.startswith(";", end + 1):
            raise CannotTurn("a launch that is no statement", launch.start())
        kernel, arguments = launch["kernel"], text[begin:end]
        comma = ", " if arguments.strip() else ""
        call = f"[](auto... on_device) {{ {kernel}(on_device...); }}"
        parts += [text[at : launch.start()], f'LaunchKernel("{kernel}", {{{config}}}, {call}{comma}{arguments})']
        at = end + 1
    parts.append(text[at:])
    if (left := "".join(parts).find("<<<")) >= 0:
        raise CannotTurn("a launch of another kind", left)
    return "".join(parts)


def translation(root, path, files):
    """The lines of a file, each at the number that it has."""
    files.append(root / path)
    text = files[-1].read_text()
    try:
        text = turned(text)
    except CannotTurn as error:
        sys.exit(f"{path}:{text.count(chr(10), 0, error.begin) + 1}: cannot turn this into C++: {error}")
    yield f'#line 1 "{path}"'
    for number, line in enumerate(text.splitlines(), 1):
        if include := INCLUDE.match(line):
            yield from translation(root, include["path"], files)
            yield f'#line {number + 1} "{path}"'
        else:
            yield "" if line == "#pragma once" else line


def main():
    root, source, output, depfile = (pathlib.Path(word) for word in sys.argv[1:])
    files = []
    lines = ['#include "tests/parity/cuda_stand_in_device.h"', *translation(root, source.as_posix(), files)]
    output.write_text("\n".join(lines) + "\n")
    depfile.write_text(f"{output}: {' '.join(str(file) for file in files)}\n")


if __name__ == "__main__":
    main()
