"""The programs of docs/FROM_OTHER_FRAMEWORKS.md, as the page has them, put into a package and run as jobs."""

import re

from own_job import TOOL, TRAINED, OwnJobTest, downpour
from package import ROOT

PAGE = (ROOT / "docs/FROM_OTHER_FRAMEWORKS.md").read_text()
CHANCE = 0.1  # of 10 classes


def programs(heading):
    """The page's code under a heading, in its order."""
    part = next(text for text in re.split(r"^## ", PAGE, flags=re.MULTILINE) if text.startswith(heading + "\n"))
    return re.findall(r"^```python\n(.*?)^```$", part, flags=re.DOTALL | re.MULTILINE)


class PageTest(OwnJobTest):
    def write(self, program):
        package = self.folder / "trainer"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("")
        (package / "images.py").write_text(programs("The data")[0])
        (package / "task.py").write_text(program)

    def run_job(self, name):
        return downpour.run(self.folder / "job.yaml", self.folder / name, tool=TOOL, module="trainer.task",
                            package=self.folder / "trainer", args=["--job-dir", self.folder])  # fmt: skip

    def is_refused(self, program, words):
        self.write(program)
        with self.assertRaises(downpour.ToolError) as refused:
            self.run_job("refused")
        self.assertRegex(str(refused.exception), words)
        self.assertEqual(refused.exception.exit_code, 78)

    def trains(self, program, number=0):
        """The summary of the job that it is."""
        self.write(program)
        job = self.run_job(f"job-{number}")
        self.addCleanup(job.cancel)
        summary = job.wait(TRAINED)
        self.assertEqual((summary["state"], summary["samplesCommitted"]), ("SUCCEEDED", 3 * 1000))
        return summary


