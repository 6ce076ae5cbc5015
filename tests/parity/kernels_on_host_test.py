"""kernels_on_host.py turns what it knows, line by line, and nothing else in silence."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


class KernelsOnHostTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def turn(self, text):
        """Exit code, what was made of it, what was said."""
        (self.root / "a.cu").write_text(text)
        made, depfile = self.root / "a.cc", self.root / "a.d"
        made.write_text("")
        command = [sys.executable, PROGRAM, self.root, "a.cu", made, depfile]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, made.read_text(), done.stderr

    def test_launches_become_calls(self):
        launch = "  K<<<dim3(1, f(2)), {3, 4}, 0, s>>>(a,\n    b...);\n"
        code, made, said = self.turn("void F() {\n" + launch + "  L<<<1, 2>>>();\n}\n")
        self.assertEqual(code, 0, said)
        call = "[](auto... on_device) { K(on_device...); }"
        self.assertIn(f'  LaunchKernel("K", {{dim3(1, f(2)), {{3, 4}}, 0, s}}, {call}, a,\n    b...);\n', made)
        self.assertIn('LaunchKernel("L", {1, 2}, [](auto... on_device) { L(on_device...); });', made)

    def test_memory_of_a_block_is_announced(self):
        _, made, _ = self.turn("  __shared__ unsigned int x[4][f(2)];\n")
        self.assertIn("  static unsigned int x[4][f(2)]; ::downpour::BeginSharedMemory(&x, sizeof(x));\n", made)

    def test_each_line_keeps_its_number_and_included_ones_theirs(self):
        (self.root / "b.cuh").write_text("#pragma once\nint b;\n")
        code, made, said = self.turn('// a\n#include "b.cuh"\nint a;\n')
        self.assertEqual(code, 0, said)
        self.assertIn('#line 1 "a.cu"\n// a\n#line 1 "b.cuh"\n\nint b;\n#line 3 "a.cu"\nint a;\n', made)
        self.assertIn("b.cuh", (self.root / "a.d").read_text())

    def test_what_it_cannot_turn_it_names(self):
        for line in (
            "  K<float><<<1, 2>>>(a);",
            "  (*k)<<<1, 2>>>(a);",
            "  return K<<<1, 2>>>(a), 0;",
            "  K<<<1, 2>>>;",
            "  K<<<1, 2;",
            "  K<<<1, 2>>>(a;",
            "  K<<<(1, 2>>>(a);",
            "  extern __shared__ float x[];",
            "  __shared__ float x, y;",
        ):
            code, made, said = self.turn("\n\n" + line + "\n")
            self.assertEqual((code, made), (1, ""), line)
            self.assertIn("a.cu:3: cannot turn this into C++: ", said, line)


if __name__ == "__main__":
    unittest.main()
