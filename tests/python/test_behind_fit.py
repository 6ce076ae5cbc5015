"""Behind fit() and the loop over steps(): what the program finds there, and what it may not do."""

import unittest

from package import is_there  # first: it says where the others are

NUMPY = is_there("numpy")
if NUMPY:
    from worker import ChildTest
else:
    ChildTest = unittest.TestCase

TWICE = """
import sys, numpy, downpour
{before}
values, train = {"w": numpy.zeros(1, numpy.float32)}, [numpy.float32(1)] * 4
def once(is_loop):
    step = lambda v, b: (1.0, {"w": v["w"]})
    if not is_loop:
        return downpour.fit(values, train=train, step=step, batch_size=4)
    for batch in downpour.steps(train, batch_size=4):
        downpour.push(values, loss=1.0, gradients={})
once(False)
print("once")
once("loop" in sys.argv)
print("twice")
"""
FORMATS = """
import numpy, downpour
step = lambda v, b: (1.0, {})
_, history = downpour.fit({"w": numpy.zeros(1, numpy.float32)}, train=[numpy.float32(1)] * 4, step=step)
print("as text", *(f"{number:.2f}" for epoch in history for number in epoch.values()))
"""


@unittest.skipUnless(NUMPY, "python3-numpy is not there")
class BehindFitTest(ChildTest):
    def test_that_a_program_trains_once(self):
        once = "trains once, but this program has called downpour.fit or .* a program of its own"
        for how in ("fit", "loop"):
            with self.subTest(how=how):
                self.write(TWICE.replace("{before}", ""))
                self.assertRegex(self.alone(how, code=1), f"MisuseError: a job {once}")
                worker = self.work(how)
                worker.train((range(4), 1))
                error = worker.ask({"finish": {"history": [{"epoch": 1, "loss": 1.0}]}})["error"]
                self.assertRegex(error["message"], once)
                self.assertRegex(error["where"], r"^task.py:\d+, in once: ")
                self.assertTrue(error["ended"])
        self.write(TWICE.replace("{before}", "sys.ps1 = '>>> '"))
        self.assertEqual(self.alone("fit").splitlines()[-1], "twice", "at a prompt nothing becomes a job")

    def test_a_history_has_numbers_alone(self):
        self.write(FORMATS)
        worker = self.work()
        worker.train((range(4), 1))
        entries = [{"epoch": 1, "loss": None}, {"epoch": 2, "loss": 0.5, "evalLoss": None, "rmse": None}]
        self.assertEqual(worker.ask({"finish": {"history": entries}}), {"finished": {}})
        self.assertIn("as text 1.00 nan 2.00 0.50 nan nan\n", worker.end()[1])

    def test_a_push_behind_a_loop_that_was_left_is_refused(self):
        loop = """
import numpy, downpour
values = {"w": numpy.zeros(1, numpy.float32)}
try:
    for batch in downpour.steps([numpy.float32(1)] * 4, batch_size=1):
        downpour.push(values, loss=1.0, gradients={})
        WHAT
except ValueError:
    pass
downpour.push(values, loss=1.0, gradients={})
"""
        for what in ("break", "raise ValueError"):
            with self.subTest(what=what):
                self.write(loop.replace("WHAT", what))
                self.assertIn("push belongs into a loop over downpour.steps", self.alone(code=1))


if __name__ == "__main__":
    unittest.main()
