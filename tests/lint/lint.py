"""The rules of the source tree that a compiler does not check. Exits 1 and names file and line for each breach.

    lint.py ROOT          checks the tree
    lint.py --self-test   shows that each rule still catches what it is for
"""

import pathlib
import re
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev"))
from mutation_lists import read_lists  # noqa: E402
from examples import ExampleRulesCatch, stale_examples  # noqa: E402, F401 (the first: --self-test)
from prose import ProseRulesCatch, dead_links, hard_prose, lines  # noqa: E402, F401 (the first: --self-test)

FOLDERS = {"schema", "job", "runtime", "tensor", "optimizer", "data", "model", "ps", "worker", "chief", "cluster"}
FOLDERS |= {"reader", "checkpoint", "predict", "service", "tools", "bench", "python", "tests"}
SOURCES = {".cc", ".h", ".cu", ".cuh", ".fbs", ".py", ".sh", ".js", ".css", ".html", ""}
MOST_LINES = 500
MOST_FUNCTION_LINES = 70
MOST_COLUMNS = 120

# What each part may include of ours. A main.cc and the rest of tools may include everything but tests.
PURE = {"schema", "job", "seam"}
DRIVERS = PURE | {"posix", "process", "shm", "http", "zmq"}
MAY_INCLUDE = {
    "schema": {"schema"},
    "job": {"schema", "job"},
    "modules": {"modules"},
    "tensor": {"tensor", "modules"},
    "seam": PURE,
    "posix": PURE | {"posix"},
    "process": PURE | {"posix", "process"},
    "shm": PURE | {"posix", "shm"},
    "http": PURE | {"posix", "process", "http"},
    "zmq": DRIVERS,
    "optimizer": {"schema", "job", "tensor", "optimizer"},
    "data": PURE | {"data", "modules"},
    "model": PURE | {"tensor", "optimizer", "data", "model"},
    "ps": PURE | {"tensor", "optimizer", "ps"},
    "worker": PURE | {"worker"},
    "reader": PURE | {"worker", "reader"},
    "chief_known": PURE | {"chief_known"},
    "chief_folder": PURE | {"chief_known", "chief_folder"},
    "chief": PURE | {"chief_known", "chief_folder", "chief"},
    "python_child": DRIVERS | {"modules", "tensor", "optimizer", "model", "worker", "python_child"},
    "cluster": DRIVERS | {"cluster"},
    "checkpoint": PURE | {"posix", "tensor", "ps", "chief_known", "chief_folder", "cluster", "checkpoint"},
    "predict": DRIVERS | {"tensor", "data", "model", "ps", "cluster", "checkpoint", "python_child", "reader", "predict"},
    "service": DRIVERS | {"cluster", "predict", "service"},
}

# Roles are state machines: the same inputs give the same effects, on every run and every machine.
IMPURE = re.compile(
    r"\b(steady_clock|system_clock|high_resolution_clock|gettimeofday|getenv|random_device|BitGen|rand\(|"
    r"std::(thread|mutex|async|ifstream|ofstream|fstream|uniform_\w+|normal_distribution)|"
    r"(unordered|flat_hash|node_hash)_(map|set)|usleep|sleep_for|fopen|socket\()"
)
SLEEPS = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|time\.sleep|absl::SleepFor)\b")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|TBD)\b")
NO_FUNCTION = re.compile(r"\s*(//|#|(namespace|class|struct|enum|union)\b)")
# "core 4", "A9" and "conversation 5" are rules, holes and numbered parts of schema/PROTOCOL.md.
CITED = re.compile(r"\b(core \d|conversation \d+|[AB]\d{1,2})\b")
CITABLE = re.compile(r"^(?:- \*\*(?P<hole>[AB]\d+)\.|(?P<core>\d)\. \*\*|## (?P<conversation>\d+)\. )", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#include "([^"]+)"')


def part_of(path):
    """The row of MAY_INCLUDE that a file belongs to, or None if it may include anything but tests."""
    top, *rest = path.split("/")
    if path.startswith("worker/python/"):
        return "python_child"
    if path.endswith("main.cc") or top in ("tools", "bench", "tests"):
        return None
    if top == "runtime":
        return rest[0] if len(rest) > 1 else "seam"
    if top == "chief" and len(rest) > 1:
        return f"chief_{rest[0]}"
    return top


def check_includes(path, lines):
    part = part_of(path)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match or match[1].split("/")[0] not in FOLDERS:
            if "flatbuffers/" in line and "#include" in line and not path.startswith(("schema/codec", "tests/")):
                yield number, "only schema/codec knows FlatBuffers"
            continue
        included = match[1]
        if included.startswith("tests/") and not path.startswith("tests/"):
            yield number, "nobody includes tests"
        elif included == "chief/chief_parts.h" and path not in ("chief/chief_role.cc", "chief/chief_parts.cc"):
            yield number, "a part of the chief has what it uses in its own struct Parts"
        elif part is not None and part_of(included) not in MAY_INCLUDE[part]:
            yield number, f"{part} may not include {included}"


def check_purity(path, lines):
    if part_of(path) not in ("seam", "ps", "worker", "reader", "chief_known", "chief_folder", "chief"):
        return
    for number, line in enumerate(lines, 1):
        match = IMPURE.search(line.split("//")[0])
        if match:
            yield number, f"a role may not use {match[0]}: time, files, randomness come through the seam"


def check_words(path, lines):
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield number, "unfinished work belongs into an issue, not into the tree"
        if path.startswith("tests/") and SLEEPS.search(line):
            yield number, "a test waits for an event, not for time to pass"


def check_columns(path, lines):
    is_script = path.endswith(".py") or (lines and lines[0].endswith("env python3"))
    for number, line in enumerate(lines, 1):
        if len(line) > MOST_COLUMNS and (is_script or path.endswith((".cc", ".h", ".cu", ".cuh", ".fbs"))):
            yield number, f"{len(line)} columns (at most {MOST_COLUMNS})"


def check_sizes(path, lines):
    if len(lines) > MOST_LINES:
        yield MOST_LINES + 1, f"{len(lines)} lines; split the file (at most {MOST_LINES})"
    if not path.endswith((".cc", ".h", ".cu", ".cuh")):
        return
    begin = signature = None  # the line and indent at which a function, or what may be one, begins
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip())
        if begin is not None:
            if line.startswith(" " * indent + "}") and indent == begin[1]:
                if number - begin[0] + 1 > MOST_FUNCTION_LINES:
                    yield begin[0], f"a function of {number - begin[0] + 1} lines (at most {MOST_FUNCTION_LINES})"
                begin = None
            continue
        if indent in (0, 2):
            signature = (number, indent) if "(" in line and not NO_FUNCTION.match(line) else None
        if signature and line.endswith("{"):
            begin, signature = signature, None
        elif line.endswith((";", "}")):
            signature = None


RULES = (check_includes, check_purity, check_words, check_columns, check_sizes)


def breaches(path, text):
    lines = text.splitlines()
    for rule in RULES:
        for number, what in rule(path, lines):
            yield f"{path}:{number}: {what}"


def tree(root):
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        if path.split("/")[0] in FOLDERS | {"deploy"} and file.is_file() and file.suffix in SOURCES:
            if "__pycache__" not in path and "corpus" not in path and not path.startswith("tests/lint/"):
                yield path, file


def stale_mutations(root):
    """A mutation names its place by a text; while one is not there, tools/dev/mutate tries none."""
    for file, mutation in read_lists(root / "tests/sim/mutations"):
        count = (root / mutation["file"]).read_text().count(mutation["find"])
        if count != 1:
            name = f"{file.relative_to(root)}: {mutation['name']}"
            yield f"{name}: its text is {count} times in {mutation['file']}, not once"


def unnamed_tests(root):
    """Whoever reads a header is told where its tests are."""
    for test in sorted((root / "tests/unit").rglob("*_test.cc")):
        folder = root / test.parent.relative_to(root / "tests/unit")
        for header in folder.rglob(test.name.removesuffix("_test.cc") + ".h"):
            if "\n// Tests: " not in header.read_text():
                yield f"{header.relative_to(root)}: does not name its tests: `// Tests: {test.relative_to(root)}.`"


def unit_of(path):
    return path.rsplit(".", 1)[0]


def include_cycles(root):
    """A unit, a header with its source, is understood after those that it includes: so none comes back to itself."""
    includes = {}
    for path, file in tree(root):
        if path.endswith((".cc", ".h", ".cu", ".cuh")) and not path.startswith("tests/"):
            found = {unit_of(match[1]) for match in map(INCLUDE.match, file.read_text().splitlines()) if match}
            includes.setdefault(unit_of(path), set()).update(found - {unit_of(path)})
    done, trail = set(), []

    def visit(unit):
        if unit in trail:
            yield f"{unit}: includes itself by way of {' -> '.join([*trail[trail.index(unit) + 1:], unit])}"
        elif unit not in done:
            trail.append(unit)
            for next_unit in sorted(includes.get(unit, ())):
                yield from visit(next_unit)
            done.add(trail.pop())

    for unit in sorted(includes):
        yield from visit(unit)


def unknown_rules(root):
    """A rule that is cited by its name stands in the protocol's page."""
    known = set()
    for match in CITABLE.finditer((root / "schema/PROTOCOL.md").read_text()):
        known.add(match["hole"] or f"{match.lastgroup} {match[match.lastgroup]}")
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root)
        if path.parts[0] not in FOLDERS or file.suffix not in {".cc", ".h", ".toml", ".txt"}:
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            for cited in set(CITED.findall(line)) - known:
                yield f"{path}:{number}: schema/PROTOCOL.md has no {cited}"


def wide_prose(root):
    """Of documents; tables and what is to be typed may be wider."""
    for file, number, line in lines(root):
        if len(line) > MOST_COLUMNS and not line.startswith(("|", "    ")):
            yield f"{file.relative_to(root)}:{number}: {len(line)} columns (at most {MOST_COLUMNS})"


def lint(root):
    found = [*stale_mutations(root), *unnamed_tests(root), *unknown_rules(root), *wide_prose(root)]
    found += include_cycles(root)
    found += [*hard_prose(root), *dead_links(root), *stale_examples(root)]
    for path, file in tree(root):
        try:
            found += breaches(path, file.read_text())
        except UnicodeDecodeError:
            continue  # binary test data
    for folder in sorted(p.name for p in root.iterdir() if p.is_dir()):
        if folder in ("common", "util", "utils", "base"):
            found.append(f"{folder}/: a folder named after nothing collects everything")
    return found


class EachRuleCatches(unittest.TestCase):
    def test_includes(self):
        for path, line in [
            ("schema/a.cc", '#include "runtime/role.h"'),
            ("tensor/a.cc", '#include "schema/payload.h"'),
            ("runtime/role.h", '#include "runtime/zmq/driver.h"'),
            ("ps/shard.cc", '#include "worker/worker_role.h"'),
            ("chief/known/lease_ledger.cc", '#include "tensor/backend.h"'),
            ("chief/known/lease_ledger.cc", '#include "chief/chief_parts.h"'),
            ("chief/known/lease_ledger.cc", '#include "runtime/posix/storage.h"'),
            ("tools/run.cc", '#include "tests/sim/world.h"'),
            ("cluster/run.cc", '#include "tools/cli/verbs.h"'),
            ("runtime/posix/lock.cc", '#include "runtime/zmq/driver.h"'),
            ("chief/known/lease_ledger.cc", '#include "chief/folder/journal.h"'),
            ("chief/known/lease_ledger.cc", '#include "flatbuffers/flatbuffers.h"'),
        ]:
            self.assertTrue(list(breaches(path, line)), (path, line))
        for path, line in [
            ("ps/main.cc", '#include "runtime/zmq/driver.h"'),
            ("ps/shard.cc", '#include "tensor/apply_kernels.h"'),
            ("tests/sim/world.cc", '#include "chief/chief_role.h"'),
            ("schema/codec_decode.cc", '#include "flatbuffers/flatbuffers.h"'),
        ]:
            self.assertEqual(list(breaches(path, line)), [], (path, line))

    def test_purity(self):
        for line in ["auto t = std::chrono::steady_clock::now();", "absl::flat_hash_map<int, int> m;", "std::mutex m;"]:
            self.assertTrue(list(breaches("chief/known/lease_ledger.cc", line)), line)
            self.assertEqual(list(breaches("runtime/zmq/driver.cc", line)), [], line)

    def test_words(self):
        self.assertTrue(list(breaches("ps/a.cc", "// TO" + "DO: later")))
        self.assertTrue(list(breaches("tests/process/a.py", "time.sl" + "eep(1)")))

    def test_columns(self):
        for path, start in [("ps/a.cc", "// "), ("tools/a.py", "# "), ("tools/a", "#!/usr/bin/env python3\n# ")]:
            self.assertTrue(list(breaches(path, start + "x" * 119)), path)
            self.assertEqual(list(breaches(path, start + "x" * 117)), [], path)

    def test_sizes(self):
        self.assertTrue(list(breaches("ps/a.cc", "\n" * (MOST_LINES + 1))))
        body = "int F() {\n" + "  x();\n" * 80 + "}\n"
        self.assertTrue(list(breaches("ps/a.cc", body)))
        self.assertTrue(list(breaches("ps/a.cc", body.replace("F()", "F(int a,\n      int b)"))))
        self.assertTrue(list(breaches("ps/a.cc", body.replace("F()", "F(int a)\n    : a_(a),\n      b_{}"))))
        self.assertTrue(list(breaches("ps/a.h", "class A {\n  int F() {\n" + "    x();\n" * 80 + "  }\n};\n")))
        self.assertEqual(list(breaches("ps/a.cc", "namespace a {\n" + "int F() {\n}\n" * 80 + "}\n")), [])

    def test_mutations(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "tests/sim/mutations").mkdir(parents=True)
            mutation = "[[mutation]]\nname = 'm'\nfile = 'a.cc'\nfind = 'x = 1;'\n"
            (root / "tests/sim/mutations/a.toml").write_text(mutation)
            for text, stale in [("x = 1;", 0), ("x = 2;", 1), ("x = 1; x = 1;", 1)]:
                (root / "a.cc").write_text(text)
                self.assertEqual(len(list(stale_mutations(root))), stale, text)

    def test_unnamed_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for part in ("ps", "tests/unit/ps"):
                (root / part).mkdir(parents=True)
            (root / "tests/unit/ps/a_test.cc").touch()
            for text, unnamed in [("// A.\n#pragma once\n", 1), ("// A.\n//\n// Tests: here.\n#pragma once\n", 0)]:
                (root / "ps/a.h").write_text(text)
                self.assertEqual(len(list(unnamed_tests(root))), unnamed, text)

    def test_include_cycles(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "ps").mkdir()
            (root / "ps/a.h").write_text("")
            (root / "ps/a.cc").write_text('#include "ps/a.h"\n#include "ps/b.h"\n')
            for text, cycles in [("", 0), ('#include "ps/c.h"\n', 0), ('#include "ps/a.h"\n', 1)]:
                (root / "ps/b.h").write_text(text)
                self.assertEqual(len(list(include_cycles(root))), cycles, text)

    def test_unknown_rules(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for part in ("schema", "ps"):
                (root / part).mkdir()
            page = "## 4. Placing\n\n1. **A pair.** x\n\n- **A2.** x\n"
            (root / "schema/PROTOCOL.md").write_text(page)
            for text, unknown in [("core 1, A2, conversation 4", 0), ("core 2", 1), ("A3, B2", 2), ("conversation 1", 1)]:
                (root / "ps/a.h").write_text(f"// {text}.\n")
                self.assertEqual(len(list(unknown_rules(root))), unknown, text)

    def test_wide_prose(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for part in ("schema", "docs"):
                (root / part).mkdir()
            (root / "README.md").write_text("short\n")
            (root / "schema/PROTOCOL.md").write_text("short\n")
            for start, wide in [("", 1), ("- ", 1), ("| ", 0), ("    ", 0), ("```\n", 0), ("```\n```\n", 1)]:
                (root / "docs/A.md").write_text(start + "x" * 121)
                self.assertEqual(len(list(wide_prose(root))), wide, start)


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        unittest.main(argv=sys.argv[:1])
    found = lint(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "clean")
    sys.exit(1 if found else 0)
