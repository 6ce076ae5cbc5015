"""The Python package where the tool is missing, is another program, or dies; and model files that are not right."""

import ast
import json
import os
import pathlib
import struct
import sys
import tempfile
import unittest

from package import PACKAGE, is_there  # first: it says where the others are

import downpour
from downpour.safetensors import read_safetensors

ONE = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="downpour-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class HostileToolTest(FolderTest):
    def tool(self, script):
        """A program that does this instead."""
        file = self.folder / "downpour"
        file.write_text(script if script.startswith("\n") else f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return file

    def job(self, script):
        return downpour.Job(self.folder, tool=self.tool(script))

    def calls(self, job):
        return (job.status, job.wait, job.checkpoints)

    def refused(self, call, code, sentence):
        with self.assertRaisesRegex(downpour.ToolError, sentence) as caught:
            call()
        self.assertEqual(caught.exception.exit_code, code)

    def test_what_it_prints_is_no_status(self):
        for printed in ("{", "[" * 100_000, "null", "7", r"\377\376", '{"state":'):
            job = self.job(f"printf '{printed}\\n'")
            for call in self.calls(job):
                self.refused(call, 0, r"printed no JSON (dict|list) but .*: is it the tool of Downpour\?")

    def test_it_prints_nothing(self):
        job = self.job("exit 0")
        self.refused(job.status, 0, "printed no JSON dict but ''")
        self.refused(job.wait, 0, "downpour watch exited with 0 and gave no reason")

    def test_it_dies(self):
        job = self.job('echo \'{"state": "RUNNING"}\'; kill -9 $$')
        for call in (*self.calls(job), job.cancel, job.logs, job.state_dict):
            self.refused(call, -9, r"downpour \w+ was ended by SIGKILL")
        self.refused(self.job("printf '{'; kill -9 $$").wait, -9, "downpour watch was ended by SIGKILL")
        start = lambda: downpour.run("job.yaml", self.folder, tool=self.folder / "downpour")
        self.refused(start, -9, "downpour run was ended by SIGKILL")

    def test_it_gives_up_with_its_own_sentence(self):
        job = self.job("echo 'downpour x: the reason' >&2; exit 69")
        for call in (*self.calls(job), job.cancel, job.logs, job.state_dict):
            self.refused(call, 69, "^downpour x: the reason$")

    def test_it_stops_watching_a_job_that_goes_on(self):
        job = self.job('echo \'{"state": "RUNNING"}\'; echo "the reason" >&2; exit 1')
        self.refused(job.wait, 1, "^the reason$")
        self.assertEqual(job.status(), {"state": "RUNNING"})

    # It has nothing of Downpour, but each value is of JSON: what prints it must not fail.
    def test_a_status_of_odd_values_prints(self):
        for odd in (None, 7, "x<b>", [1], {"a": 1}):
            names = ("job", "state", "progress", "evaluation", "checkpoint", "tasks", "errorMessage", "stalled")
            status = downpour.Status({name: odd for name in names})
            self.assertIn("Job:", repr(status))
            self.assertNotIn("<b>", status._repr_html_())

    def test_there_is_no_tool(self):
        with self.assertRaisesRegex(downpour.ToolNotFound, "no program /no/where: install .* by tool="):
            downpour.Job(self.folder, tool="/no/where")
        (self.folder / "text").write_text("no program")
        with self.assertRaisesRegex(downpour.ToolNotFound, "no program "):
            downpour.Job(self.folder, tool=self.folder / "text")
        with self.assertRaisesRegex(downpour.ToolNotFound, "cannot be started: Exec format error"):
            self.job("\nno program").status()

    def test_what_is_asked_of_it_for_code_of_ones_own(self):
        tool = self.tool(f'for word in "$@"; do echo "$word"; done > {self.folder}/words; echo "chief at x" >&2')
        said = ["--", "--data", "a b"]
        for arguments, last in ((said[1:], said), ("--data 'a b'", said), (["--n", 5], ["--", "--n", "5"]), ([], [])):
            own = {"module": "trainer.task", "package": "trainer", "args": arguments}
            downpour.run("job.yaml", self.folder, tool=tool, **own)._run.wait()
            asked = (self.folder / "words").read_text().splitlines()
            package = f"--package-path={os.path.abspath('trainer')}"
            said = ["--module-name=trainer.task", f"--python={sys.executable}", package]
            self.assertEqual(asked[-3 - len(last) :], [*said, *last])

    def test_one_package_may_stand_by_itself(self):
        tool = self.tool(f'for word in "$@"; do echo "$word"; done > {self.folder}/words; echo "chief at x" >&2')
        for packages in ("/a.whl", pathlib.Path("/a.whl"), ["/a.whl"]):
            downpour.run("job.yaml", self.folder, tool=tool, module="m", packages=packages)._run.wait()
            self.assertIn("--packages=/a.whl", (self.folder / "words").read_text().splitlines())

    @unittest.skipUnless(is_there("numpy"), "python3-numpy is not there")
    def test_settings_may_be_numbers_of_numpy(self):
        import numpy

        tool = self.tool(f'for word in "$@"; do echo "$word"; done > {self.folder}/words; echo "chief at x" >&2')
        settings = {"a.b": numpy.int64(3), "c": [numpy.float32(0.5)], "d": None, "e": numpy.arange(2)}
        downpour.run("job.yaml", self.folder, tool=tool, set=settings)._run.wait()
        words = (self.folder / "words").read_text().splitlines()
        self.assertEqual(words[-4:], ["--set=a.b=3", "--set=c=[0.5]", "--set=d=null", "--set=e=[0, 1]"])
        with self.assertRaisesRegex(TypeError, "a object is no value for a job file"):
            downpour.run("job.yaml", self.folder, tool=tool, set={"a": object()})

    def test_its_sentence_stands_before_what_the_program_printed(self):
        sentences = ["downpour: it is wrong", "/x/job.yaml:3:1: seed: is bad", "--set: a: is bad", "downpour run: no"]
        said = "".join(f"echo '{line}' >&2; " for line in ["printed: this", "and that", *sentences])
        start = lambda: downpour.run("job.yaml", self.folder, tool=self.tool(said + "exit 78"))
        self.refused(start, 78, "^" + "\n".join(sentences) + "\nprinted: this\nand that$")

    def test_which_tool_is_called(self):
        saved = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(saved)))
        self.tool("echo '{\"state\": \"PATH\"}'")
        other = self.folder / "other"
        other.write_text("#!/bin/sh\necho '{\"state\": \"VARIABLE\"}'\n")
        other.chmod(0o755)
        state = lambda **options: downpour.Job(self.folder, **options).status()["state"]
        os.environ["PATH"] = f"{self.folder}:{saved['PATH']}"
        self.assertEqual(state(), "PATH")
        os.environ["DOWNPOUR_TOOL"] = str(other)
        self.assertEqual(state(), "VARIABLE")
        self.assertEqual(state(tool=self.folder / "downpour"), "PATH")
        os.environ["PATH"] = os.environ["DOWNPOUR_TOOL"] = ""
        with self.assertRaisesRegex(downpour.ToolNotFound, "no program downpour in the PATH"):
            state()


@unittest.skipUnless(is_there("numpy"), "python3-numpy is not there: no model file is read")
class ModelFileTest(FolderTest):
    def read(self, header, body=b"", length=None):
        header = header if isinstance(header, bytes) else json.dumps(header).encode()
        file = self.folder / "model.safetensors"
        file.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + body)
        return read_safetensors(str(file))

    def refused(self, reason, *words, **options):
        with self.assertRaisesRegex(downpour.ModelFileError, "model.safetensors: .*" + reason):
            self.read(*words, **options)

    def test_a_good_file(self):
        last = {"dtype": "F32", "shape": [1], "data_offsets": [24, 28]}
        read = self.read({"b": last, "a": ONE, "__metadata__": {"job": "{}"}}, struct.pack("<7f", *range(7)))
        listed = {name: value.tolist() for name, value in read.items()}
        self.assertEqual(listed, {"a": [[0, 1, 2], [3, 4, 5]], "b": [6]})
        self.assertEqual(self.read({}), {})

    def test_headers_that_are_none(self):
        self.refused("no safetensors file", b"{}", length=3)
        self.refused("no safetensors file", b"{}", length=2**64 - 1)
        self.refused("no JSON", b"{")
        self.refused("no JSON", b"\xff\xff")
        self.refused("no JSON", b"[" * 100_000)
        self.refused("a name is there twice", b'{"a": {}, "a": {}}')
        self.refused("no JSON object", b"[]")
        (self.folder / "model.safetensors").write_bytes(b"\0" * 7)
        with self.assertRaisesRegex(downpour.ModelFileError, "it has 7 bytes"):
            read_safetensors(str(self.folder / "model.safetensors"))

    def test_tensors_that_do_not_fit(self):
        body = bytes(24)
        for reason, change in [
            ("is not of dtype F32, but F16", {"dtype": "F16"}),
            ("has no good shape", {"shape": [2, -3]}),
            ("has no good shape", {"shape": [True, 6]}),
            ("has no good shape", {"shape": [0, 10**30], "data_offsets": [0, 0]}),
            ("has no good shape", {"shape": [1] * 17}),
            ("has no good shape", {"shape": 6}),
            ("cannot have the data_offsets", {"shape": [10**30]}),
            ("cannot have the data_offsets", {"data_offsets": [0, 20]}),
            ("cannot have the data_offsets", {"data_offsets": [24, 0]}),
            ("cannot have the data_offsets", {"data_offsets": [-24, 0]}),
            ("cannot have the data_offsets", {"data_offsets": [0.0, 24.0]}),
            ("cannot have the data_offsets", {"data_offsets": None}),
            ("begins at 4, but the one before ends at 0", {"data_offsets": [4, 28]}),
            ("ends at 48, but there are 24 bytes", {"shape": [12], "data_offsets": [0, 48]}),
            ("4 bytes behind the last tensor", {"shape": [5], "data_offsets": [0, 20]}),
        ]:
            with self.subTest(reason=reason, change=change):
                self.refused(reason, {"a": {**ONE, **change}}, body)
        self.refused("is not of dtype F32", {"a": 7}, body)
        self.refused("begins at 0, but the one before ends at 24", {"a": ONE, "b": ONE}, body)


class SourceTest(unittest.TestCase):
    def test_it_is_python_3_9(self):
        for file in sorted(PACKAGE.rglob("*.py")):
            ast.parse(file.read_text(), str(file), feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()
