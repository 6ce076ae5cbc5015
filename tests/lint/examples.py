"""Examples at the top of headers: each call in one names a function that is declared, with as many arguments.

An example is a block of lines that begin with "//   ", after an empty line of the header's first comment. What it calls
has to be declared in that header or in one that it includes, and "..." stands for anything. A compiler would see more,
but would want all that an example leaves out.
"""

import functools
import pathlib
import re
import tempfile
import unittest

EXAMPLE = re.compile(r"^//   ( *\S.*)$")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
CALL = re.compile(r"(?P<type>[\w:]+(?:<[^()]*>)?[&*]*\s+)?(?P<scope>(?:\w+::)*)(?P<name>[A-Za-z_]\w*)(?:<[\w:, *]*>)?\(")
NO_CALL = {"if", "for", "while", "switch", "return", "sizeof", "catch", "static_cast", "decltype"}
TYPE = re.compile(r"(std::|absl::|nlohmann::)?(?:\w+::)*([A-Z]\w*|\w+(?=<))")
# Of libraries, as containers and absl::Status have them.
NOT_OURS = set("at begin cos cudaStreamSynchronize data dump empty end floor has_value ok push_back set_content".split())
NOT_OURS |= set("set_pre_routing_handler size sqrt value".split())


def blocks(text):
    """(line, text) of each example of a header."""
    before, begin, lines = "", 0, []
    for number, line in enumerate(text.splitlines(), 1):
        match = EXAMPLE.match(line)
        if match and (lines or before == "//"):
            begin = begin if lines else number
            lines.append(match[1])
        elif lines:
            yield begin, "\n".join(lines)
            lines = []
        if not line.startswith("//"):
            return
        before = line.strip()


def closing(text, opened):
    """The place of the bracket that closes the one at `opened`, or None."""
    depth = 0
    for at in range(opened, len(text)):
        depth += text[at] in "({["
        depth -= text[at] in ")}]"
        if depth == 0:
            return at
    return None


def items(text):
    """What commas divide, outside of all brackets."""
    found, depth, begin = [], 0, 0
    for at, c in enumerate(text):
        depth += c in "({[" or (c == "<" and text[at - 1 : at].isalnum())
        depth -= c in ")}]" or (c == ">" and depth > 0 and text[at - 1 : at] not in ("-", "=", " "))
        if c == "," and depth == 0:
            found.append(text[begin:at])
            begin = at + 1
    found.append(text[begin:])
    return [item.strip() for item in found if item.strip()]


def calls(code):
    """(name, arguments) of each call of ours; of a variable that is made, the name is that of its type."""
    for match in CALL.finditer(code):
        name, scope = match["name"], match["scope"]
        if made := TYPE.match(match["type"] or ""):
            scope, name = made.groups()
        is_ours = name[:1].isalpha() and not name.isupper() and not (scope or "").startswith(("std", "absl", "nlohmann", "testing"))
        end = closing(code, match.end() - 1)
        if is_ours and end is not None and not NO_CALL & {name, match["name"]} and name not in NOT_OURS:
            yield name, code[match.end() : end]


class Headers:
    def __init__(self, root):
        self.root = root

    @functools.cache
    def code(self, path):
        file = self.root / path
        return STRING.sub('""', COMMENT.sub("", file.read_text())) if file.is_file() else ""

    @functools.cache
    def reach(self, path):
        """The header and all that it includes, directly or not."""
        file = self.root / path
        seen, todo = set(), [path]
        while todo:
            one = todo.pop()
            file = self.root / one
            if one not in seen and file.is_file():
                seen.add(one)
                todo += INCLUDE.findall(file.read_text())
        return sorted(seen)

    @functools.cache
    def all(self):
        paths = (file.relative_to(self.root).as_posix() for file in self.root.rglob("*.h"))
        return sorted(path for path in paths if not path.startswith("build"))

    @functools.cache
    def counts(self, path, name):
        """(least, most) arguments of each function of that name that `path` reaches, or else that any header has."""
        return self.counts_in(self.reach(path), name) or self.counts_in(self.all(), name)

    def counts_in(self, paths, name):
        found = []
        for one in paths:
            code = self.code(one)
            for match in re.finditer(rf"\b{name}\)?\s*\(", code) if name in code else ():
                end = closing(code, match.end() - 1)
                taken = items(code[match.end() : end]) if end is not None else []
                found.append((sum("=" not in re.sub(r"[=!<>]=", "", item) for item in taken), len(taken)))
        return found


def stale(headers, path, text):
    """(line, what is wrong) of each example that calls what is not there."""
    for line, example in blocks(text):
        code = STRING.sub('""', re.sub(r"//.*|/\*.*?\*/", "", example))
        for name, given in calls(code):
            counts = headers.counts(path, name)
            arguments = items(given)
            number = len(arguments)
            if not counts:
                yield line, f"the example calls {name}, which no header declares"
            elif not any("..." in (one[:3], one[-3:]) for one in arguments) and not any(least <= number <= most for least, most in counts):
                yield line, f"the example calls {name} with {number} arguments, which it does not take"


def stale_examples(root):
    headers = Headers(root)
    for path in headers.all():
        for line, what in stale(headers, path, (root / path).read_text()):
            yield f"{path}:{line}: {what}"


class ExampleRulesCatch(unittest.TestCase):
    def test_stale_examples(self):
        declared = "struct Shard {\n  Shard(int slices, Log* log);\n  void Push(Id id, const std::map<A, B>& to = {});\n};\n"
        for example, breaches in [
            ("Shard shard(2, &log);", 0),
            ("Shard shard(2);", 1),
            ("shard.Push(id);  // shard.Pull(id)", 0),
            ("shard.Push(id, {{1, 2}, {3, 4}});", 0),
            ("shard.Push(id, to, 7);", 1),
            ("shard.Push(...); if (shard.Push(a, ...)) { std::move(shard).Pull(1); }", 1),
            ("for (const auto& [id, to] : list) shard.Push(id, \"(\");", 0),
            ("absl::StatusOr<int> pushed = shard.Pulls();", 1),
        ]:
            with tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder)
                (root / "a.h").write_text(f"// Shard: a part.\n//\n//   {example}\n//\n// Tests: none.\n{declared}")
                self.assertEqual(len(list(stale_examples(root))), breaches, example)
