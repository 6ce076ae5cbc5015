"""Writes a text as C++ string literals, a line each since compilers bound them: embed_text.py INPUT OUTPUT."""

import pathlib
import sys

lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
pathlib.Path(sys.argv[2]).write_text("".join(f'R"text({line}\n)text"\n' for line in lines))
