"""The child interpreter where it answers predictions, by hand."""

import json
import unittest

from package import is_there  # first: it says where the others are

import numpy

if is_there("torch"):
    import forked
    from worker import ChildTest
else:
    ChildTest = unittest.TestCase

TASK = """
import os, sys, time
import torch
import downpour

torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5))
{serve}
train = torch.randn(40, 2), torch.randint(3, (40,))
downpour.fit(model, train=train, eval=train, loss=torch.nn.functional.cross_entropy, batch_size=8)
"""
OWN = """
def predict(instances):
    what = instances[0]
    if what == "raise":
        raise KeyError("a")
    if what == "refuse":
        downpour.serve(model, 3)
    if what == "surrogate":
        return ["\\ud800"]
    if what == "raise surrogate":
        raise ValueError("\\ud800 \\0")
    if what == "no text":
        class Silent(Exception):
            def __str__(self):
                raise ValueError
        raise Silent
    if what == "exit":
        sys.exit(5)
    if what == "write":
        model[0].weight.data.fill_(7)
    return [{"weight": float(model[0].weight[0, 0]), "training": model.training, "seen": seen} for seen in instances]
downpour.serve(model, predict, example="first")
raise AssertionError("it goes on")
"""
VALUES = {"0.weight": [[1, 2], [3, 4], [5, 6]], "0.bias": [0, 1, 2], "1.weight": [1, 1, 1], "1.bias": [0, 0, 0],
          "1.running_mean": [1, 1, 1], "1.running_var": [1, 1, 1]}  # fmt: skip


@unittest.skipUnless(is_there("torch"), "there is no torch for this Python")
class ServingTest(ChildTest):
    if is_there("torch"):
        start = staticmethod(forked.start)

    def serve(self, serve="", task=TASK):
        """A child that answers with VALUES. The program without what it says of predictions tells what it trains."""
        self.write(TASK.format(serve=""))
        description, initial, _ = self.describe()
        self.assertEqual(set(initial), set(VALUES))
        self.write(task.format(serve=serve))
        values = {name: numpy.array(value, numpy.float32) for name, value in VALUES.items()}
        return self.worker(description, values, self.words(), verb="serve")

    def predict(self, child, *instances):
        return child.ask({"predict": {"instances": list(instances)}})["predicted"]

    def test_a_model_answers_in_eval_mode_with_the_values_of_the_checkpoint(self):
        for serve in ("", "downpour.serve(model)"):
            child = self.serve(serve)
            self.assertEqual([one["name"] for one in child.first["ready"]["variables"]], list(VALUES))
            self.assertEqual(child.ask({"warmUp": {}}), {"predicted": {"predictions": []}})
            found = self.predict(child, [1, 1], [0, 0])["predictions"]
            for row, right in zip(found, ([2, 7, 12], [-1, 0, 1])):
                for one, other in zip(row, right):
                    self.assertAlmostEqual(one, other, 3)
            failed = self.predict(child, [1, 1], [2])["failed"]
            self.assertTrue(failed["isOfRequest"])
            self.assertIn("row 1", failed["message"])
            failed = self.predict(child, {})["failed"]
            self.assertEqual((failed["isOfRequest"], "lacks input 'input'" in failed["message"]), (True, True), failed)

    def test_a_function_of_the_programs_own_answers_and_may_raise(self):
        child = self.serve(OWN)
        warm = child.ask({"warmUp": {}})["predicted"]["predictions"]
        self.assertEqual(warm, [{"weight": 1.0, "training": False, "seen": "first"}])
        failed = self.predict(child, "raise")["failed"]
        self.assertEqual((failed["message"], failed["isOfRequest"]), ("KeyError: 'a'", False))
        self.assertRegex(failed["where"], r'^task.py:\d+, in predict: raise KeyError\("a"\)$')
        for what, message in (("surrogate", "UnicodeEncodeError: "), ("raise surrogate", "ValueError: ? "),
                              ("no text", "Silent: it has no text")):  # fmt: skip
            self.assertIn(message, self.predict(child, what)["failed"]["message"])
        self.assertIn("predict is 3, but must be a function", self.predict(child, "refuse")["failed"]["message"])
        self.assertEqual(self.predict(child, {"a": [1, None]})["predictions"][0]["seen"], {"a": [1, None]})
        self.predict(child, "write")
        self.assertEqual(self.predict(child, 1)["predictions"][0]["weight"], 7)
        self.assertEqual(child.parameter("0.weight")[0, 0], 1, "what it writes is its own")

    def test_an_exit_ends_it_and_is_told(self):
        for code in (5, 0):
            child = self.serve(OWN.replace("sys.exit(5)", f"sys.exit({code})"))
            self.assertIn(f"SystemExit: {code}", child.ask({"predict": {"instances": ["exit"]}})["error"]["message"])

    def test_it_ends_with_who_asks(self):
        child = self.serve(OWN)
        self.assertEqual(child.end()[0], 0)

    def test_a_program_that_cannot_answer_says_so(self):
        arrays = "values = {'a': numpy.ones(2, numpy.float32)}"
        for serve, words in (("raise ValueError('no luck')", "ValueError: no luck"),
                             ("sys.exit(0)", "came to no model to answer with: call downpour.serve"),
                             (f"import numpy; {arrays}; downpour.serve(values)", "does not say how it answers"),
                             ("downpour.serve(5)", "the model is an int"),
                             ("downpour.serve(model.double())", "float64")):  # fmt: skip
            error = self.serve(serve).first["error"]
            self.assertIn(words, error["message"])

    def test_by_itself_and_in_a_job_it_trains_as_without(self):
        self.write(TASK.format(serve="downpour.serve(model)"))
        with_it = self.alone()
        self.write(TASK.format(serve=""))
        self.assertEqual(with_it, self.alone())
        self.write(TASK.format(serve="downpour.serve(model, len, example=3)"))
        self.assertEqual(self.describe()[0]["trainExamples"], 40)


if __name__ == "__main__":
    unittest.main()
