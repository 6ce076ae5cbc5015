"""How hard the documents are to read: how long their sentences are. And whether the files that they name are there.

    prose.py ROOT              each document with its figures
    prose.py FILE --long       the sentences of one document that are too long

A sentence ends with a full stop, a question mark or an exclamation mark, or with its paragraph or list item. Code,
tables, headings and diagrams are no sentences. What stands in backticks is one word.
"""

import pathlib
import re
import sys
import tempfile
import unittest

LONG = 30  # words
MOST_LONG = 0.15

HEADING = re.compile(r"#+ ")
ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
END = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?][)\"'*]*(?=\s|$)")
WORD = re.compile(r"\w")
TARGET = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")
FOLDERS = (
    "bench checkpoint chief cluster data deploy docs job model optimizer predict ps python reader runtime schema service "
    "tensor tests tools worker"
)
NAMED = re.compile(rf"`((?:{'|'.join(FOLDERS.split())})/[a-z0-9_./-]+\.[a-z]+)`")


def documents(root):
    """The pages that are held to the rules of prose."""
    pages = ["README.md", "CONTRIBUTING.md", "schema/PROTOCOL.md", "python/README.md", "tests/README.md"]
    return sorted(file for file in [*(root / page for page in pages), *(root / "docs").rglob("*.md")] if file.exists())


def lines(root):
    """(file, number, line) of all documents, but for what stands in code blocks."""
    for file in documents(root):
        is_code = False
        for number, line in enumerate(file.read_text().splitlines(), 1):
            is_code ^= line.startswith("```")
            if not is_code:
                yield file, number, line


def paragraphs(text):
    """Paragraphs and list items, each as one line."""
    block = []
    is_fenced = False
    for line in [*text.splitlines(), ""]:
        fence = line.lstrip().startswith("```")
        is_fenced ^= fence
        is_item = ITEM.match(line) is not None
        is_code = line.startswith("    ") and not is_item and not block
        is_other = fence or is_fenced or is_code or HEADING.match(line) or line.lstrip().startswith("|")
        is_text = line.strip() and not is_other
        if block and (is_item or not is_text):
            yield " ".join(block)
            block = []
        if is_text:
            block.append(ITEM.sub("", line, 1).strip() if is_item else line.strip())


def sentences(text):
    for paragraph in paragraphs(text):
        plain = CODE.sub("code", LINK.sub(r"\1", paragraph))
        begin = 0
        for end in [*(match.end() for match in END.finditer(plain)), len(plain)]:
            sentence = plain[begin:end].strip()
            begin = end
            if WORD.search(sentence):
                yield sentence


def words(sentence):
    return sum(1 for word in sentence.split() if WORD.search(word))


def figures(text):
    """(words a sentence, share of long sentences)"""
    found = list(sentences(text))
    count = max(1, len(found))
    return sum(map(words, found)) / count, sum(words(sentence) > LONG for sentence in found) / count


def hard_prose(root):
    for file in documents(root):
        _, long = figures(file.read_text())
        if long > MOST_LONG:
            path = file.relative_to(root)
            yield f"{path}: {long:.0%} of the sentences have over {LONG} words (at most {MOST_LONG:.0%})"


def dead_links(root):
    """A link, or a file that is named by its path, which is not there."""
    for file, number, line in lines(root):
        missing = {target for target in TARGET.findall(line) if not (file.parent / target).exists()}
        missing |= {name for name in NAMED.findall(line) if not (root / name).exists()}
        for name in sorted(missing):
            yield f"{file.relative_to(root)}:{number}: there is no {name}"


class ProseRulesCatch(unittest.TestCase):
    def found(self, text):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "docs/A.md").write_text(text)
            return list(hard_prose(root))

    def test_long_sentences(self):
        long = "word " * 30 + "end.\n"
        self.assertEqual(len(self.found(long)), 1)
        self.assertEqual(len(self.found("- " + long)), 1)
        self.assertEqual(self.found(long.replace("word end", "end")), [])
        self.assertEqual(self.found(long + "\nShort.\n" * 6), [])
        self.assertEqual(len(self.found(long + "\nShort.\n" * 5)), 1)

    def test_commas_count_for_nothing(self):
        self.assertEqual(self.found("One, two: three; four, five, and six.\n"), [])

    def test_what_is_no_sentence(self):
        hard = "word " * 31
        fenced, in_list = f"```\n{hard}\n```", f"- a\n\n  | {hard} |"
        for text in [f"# {hard}", f"| {hard} |", f"    {hard}", fenced, in_list, f"It says `{hard}`."]:
            self.assertEqual(self.found(text + "\n"), [], text)

    def test_where_sentences_end(self):
        for text, count in [
            ("One. Two! Three?", 3),
            ("ps 0.5 and a.b, e.g. this.", 1),
            ("One (two.) Three", 2),
            ("A list:\n- one\n- two\n  and more\n\n  still two\n\n      code", 4),
            ("See [one. two](a.md).", 2),
            ("**One.** Two", 2),
        ]:
            self.assertEqual(len(list(sentences(text))), count, text)

    def test_dead_links(self):
        for text, dead in [
            ("[a](A.md) [b](../docs/A.md#part) [c](#part) [d](https://x.org/y) `docs/A.md` `ps/`", 0),
            ("[b](B.md)", 1),
            ("```\na[b](x)\n```", 0),
            ("`ps/b.cc`", 1),
            ("[`ps/b.cc`](../ps/b.cc)", 2),
        ]:
            with tempfile.TemporaryDirectory() as folder:
                root = pathlib.Path(folder)
                (root / "docs").mkdir()
                (root / "docs/A.md").write_text(text + "\n")
                self.assertEqual(len(list(dead_links(root))), dead, text)


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1])
    if "--long" in sys.argv:
        for sentence in sentences(path.read_text()):
            if words(sentence) > LONG:
                print(f"{words(sentence)} words: {sentence}\n")
    else:
        for file in documents(path):
            print("{1:5.1f} {2:4.0%}  {0}".format(file.relative_to(path), *figures(file.read_text())))
