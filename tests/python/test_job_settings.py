"""fit(job=...) and steps(job=...): defaults for keys of the job file."""

import textwrap
import unittest

from package import PACKAGE  # noqa: F401 (first: it says where the others are)

from downpour.errors import TrainingError
from downpour.job_settings import beaten_by, job_settings, section
from worker import ChildTest

FIT = textwrap.dedent("""
    import numpy
    import downpour

    def step(values, batch):
        x, y = batch
        error = x @ values["w"] - y
        return float((error**2).mean()), {"w": 2 * x.T @ error / len(x)}

    x = numpy.ones((40, 3), numpy.float32)
    model = {"w": numpy.zeros(3, numpy.float32)}
    JOB = {"training": {"consistency": "sync", "epochs": 9, "batchSize": 5, "optimizer": {"learningRate": 9,
           "schedule": {"name": "step", "stepEvery": 3}}}, "checkpoint.every": "30s", "seed": numpy.int64(3)}
""")
CALL = textwrap.dedent("""
    _, history = downpour.fit(model, train=(x, x[:, 0]), step=step, epochs=2, optimizer={"learningRate": 0.01}, job=JOB)
    print(len(history), "epochs")
""")
LOOP = textwrap.dedent("""
    for batch in downpour.steps((x, x[:, 0]), epochs=2, optimizer={"learningRate": 0.01}, job=JOB):
        loss, gradients = step(model, batch)
        downpour.push(model, loss=loss, gradients=gradients)
""")


class JobSettingsTest(ChildTest):
    def test_arguments_beat_the_defaults_key_by_key(self):
        for name, code in (("fit", CALL), ("steps", LOOP)):
            with self.subTest(name):
                self.write(FIT + code)
                settings = self.describe()[0]["settings"]
                self.assertEqual(
                    settings,
                    {
                        "training.epochs": 2,
                        "training.batchSize": 5,
                        "training.optimizer": {"learningRate": 0.01},
                        "training.optimizer.schedule.name": "step",
                        "training.optimizer.schedule.stepEvery": 3,
                        "training.consistency": "sync",
                        "checkpoint.every": "30s",
                        "seed": 3,
                    },
                )

    def test_a_program_by_itself_goes_by_them_too(self):
        self.write(FIT + CALL)
        self.assertIn("2 epochs", self.alone())
        self.write(FIT + CALL.replace("epochs=2, ", ""))
        self.assertIn("9 epochs", self.alone())

    def test_what_is_no_default_is_named(self):
        cases = [
            (3, "job is an int"),
            ({3: 1}, "job: 3 is no key of a job file"),
            ({"a=b": 1}, "job: 'a=b' is no key"),
            ({"training": {"": 1}}, "job: training.'' is no key"),
            ({"training.epochs": object()}, "job: training.epochs is an object"),
            ({"seed": float("nan")}, "job: seed is a float"),
            ({"training": {"epochs": 1}, "training.epochs": 2}, "job: training.epochs is said twice"),
            ({"training.optimizer": "sgd", "training": {"optimizer": {"name": "sgd"}}}, "said twice"),
        ]
        for job, sentence in cases:
            with self.subTest(job), self.assertRaisesRegex(TrainingError, sentence):
                job_settings(job)
        self.write(FIT + CALL.replace("job=JOB", "job={'training.batchSize': 'x'}"))
        self.assertIn("batch_size is 'x', but must be a whole number", self.describe(code=78)[2])

    def test_a_part_beats_the_whole_and_the_whole_its_parts(self):
        defaults = {"a.b": 1, "a.c": 2, "d": [3]}
        self.assertEqual(beaten_by({"a": {"b": 5}}, defaults), {"a": {"b": 5}, "a.c": 2, "d": [3]})
        self.assertEqual(beaten_by({"d.0": 4, "a": 1}, defaults), {"d.0": 4, "a": 1})
        self.assertEqual(section({"a": {"b": 5}, "a.c.d": 2, "ab": 3}, "a"), {"b": 5, "c": {"d": 2}})


if __name__ == "__main__":
    unittest.main()
