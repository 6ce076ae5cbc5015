"""Every benchmark that docs/PERFORMANCE.md names still runs, with its smallest sizes; nobody looks at its figures.

`ninja -C build benchmarks` builds those of C++; without that they are skipped. bench_gpu needs a GPU, and
tools/dev/gpu_check runs it. bench_peers needs TensorFlow.
"""

import os
import re
import subprocess
import sys
import unittest

from cluster import BUILD, LONG, ROOT

SMALLEST = {
    "bench_apply": ["--runs", "1", "--only", "momentum"],
    "bench_checkpoint": ["--mib", "64", "--workers", "1", "--every", "8", "--rounds", "1", "--restores", "1"],
    "bench_data": ["--runs", "1", "--mib", "1", "--python", sys.executable],
    "bench_feed": ["--runs", "1"],
    "bench_input": ["--runs", "1", "--rows", "2000"],
    "bench_predict": ["--runs", "1", "--seconds", "0.01", "--rows", "50000"],
    "bench_python_child": ["--runs", "1", "--steps", "2", "--python", sys.executable],
    "bench_slices": ["--runs", "1", "--slices", "50"],
    "bench_table": ["--runs", "1", "--rows", "50000", "--lookups", "8192", "--grow", "50000"],
    "bench_train": ["--runs", "1", "--epochs", "1"],
    "bench_wire": ["--runs", "1", "--only", "16 slices of 64 KiB"],
}
NOT_HERE = {"bench_gpu", "bench_peers"}  # each says by itself what it lacks
# As many minutes as they have parts.
SCRIPTS = {"bench_clicks", "bench_flood", "bench_python", "bench_service", "bench_staleness"}


class BenchmarkTest(unittest.TestCase):
    def test_every_program_of_the_page_is_known_here(self):
        named = set(re.findall(r"bench/(bench_\w+)", (ROOT / "docs/PERFORMANCE.md").read_text()))
        self.assertEqual(named - {*SMALLEST, *NOT_HERE, *SCRIPTS}, set())
        for name in named:
            self.assertTrue(any((ROOT / "bench").glob(f"{name}*")), f"{name} is not there")

    def test_every_one_runs(self):
        for name, words in SMALLEST.items():
            program = BUILD / "bench" / name
            with self.subTest(name):
                if not program.exists():
                    self.skipTest("ninja -C build benchmarks was not run")
                environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
                done = subprocess.run([program, *words], capture_output=True, text=True, timeout=LONG, env=environment)
                self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
                self.assertRegex(done.stdout, r"\d")

    def test_every_script_says_how_it_is_called(self):
        for name in SCRIPTS | {"bench_peers"}:
            done = subprocess.run([ROOT / "bench" / name, "--help"], capture_output=True, text=True, timeout=LONG)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
