"""Puts the page's files into the program, so that it needs none of them where it runs.

    embed.py OUTPUT.cc FILE...
"""

import pathlib
import sys

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json",
         ".svg": "image/svg+xml"}  # fmt: skip


def literal(text):
    """A C++ string; raw ones are cut, since compilers bound them."""
    lines = text.splitlines(keepends=True) or [""]
    for line in lines:
        assert ')page"' not in line
    return "\n".join(f'R"page({line})page"' for line in lines) + "sv"


def main(output, *paths):
    files = [pathlib.Path(path) for path in paths]
    rows = "".join(
        f'{{"{file.name}", "{TYPES[file.suffix]}; charset=utf-8", {literal(file.read_text())}}},\n' for file in files
    )
    pathlib.Path(output).write_text(
        '#include "service/page_routes.h"\n'
        "using namespace std::string_view_literals;\n"
        "namespace downpour {\n"
        f"const std::vector<PageFile>& PageFiles() {{\nstatic const std::vector<PageFile> files = {{\n{rows}}};\n"
        "return files;\n}\n}  // namespace downpour\n"
    )


main(*sys.argv[1:])
