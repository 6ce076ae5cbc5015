"""The wheel of the Python package: it is built and installed without a network, and needs nothing else."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from package import PACKAGE, is_there  # first: it says where the others are

from cluster import LONG, TOOL

ABSENT = [f"python3-{module}" for module in ("pip", "setuptools", "wheel") if not is_there(module)]
IMPORT = """
import importlib.metadata, sys, downpour
assert not {"numpy", "torch"} & set(sys.modules)
print(downpour.__file__, downpour.__version__, importlib.metadata.version("downpour"))
"""


@unittest.skipIf(ABSENT, f"{', '.join(ABSENT)}: not there, so no wheel is built")
class WheelTest(unittest.TestCase):
    def call(self, *words):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LONG, cwd="/")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_it_is_built_and_installed(self):
        with tempfile.TemporaryDirectory(prefix="downpour-wheel-") as name:
            folder = pathlib.Path(name)
            source, python = folder / "python", folder / "venv/bin/python"
            shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
            self.call(*pip, "wheel", "--no-index", "--no-build-isolation", "--no-deps", "-w", folder, source)
            (wheel,) = folder.glob("*.whl")
            version = self.call(TOOL, "--version").split()[1].rstrip(",")
            self.assertEqual(wheel.name, f"downpour-{version}-py3-none-any.whl")
            with zipfile.ZipFile(wheel) as archive:
                files = {file for file in archive.namelist() if file.startswith("downpour/")}
                about = archive.read(f"downpour-{version}.dist-info/METADATA").decode()
            ours = [*(PACKAGE / "downpour").glob("*.py"), PACKAGE / "downpour/py.typed"]
            self.assertEqual(files, {f"downpour/{file.name}" for file in ours})
            self.assertIn("\nRequires-Python: >=3.9\n", about)
            self.assertNotIn("Requires-Dist", about)

            self.call(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
            self.call(*pip, "--python", python, "install", "--no-index", wheel)
            file, stated, installed = self.call(python, "-I", "-c", IMPORT).split()
            self.assertTrue(pathlib.Path(file).is_relative_to(folder / "venv"), file)
            self.assertEqual((stated, installed), (version, version))


if __name__ == "__main__":
    unittest.main()
