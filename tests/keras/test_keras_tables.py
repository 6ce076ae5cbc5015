"""downpour.keras.Embedding: rows of tables in Keras models, alone and in a job."""

import importlib.util
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

KERAS = importlib.util.find_spec("keras") is not None
if KERAS:
    import numpy
    import own_job
    from own_job import OwnJobTest, downpour
    from worker import ChildTest
else:
    ChildTest = OwnJobTest = unittest.TestCase

BACKENDS = [name for name in ("tensorflow", "torch") if importlib.util.find_spec(name)]
TASK = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy, downpour.keras

draws = numpy.random.default_rng(1)
user, words = (draws.integers(40, size=300) - 20) * 10**16, draws.integers(0, 30, size=(300, 4))
x, y = {"user": user, "words": words}, draws.standard_normal((300, 1)).astype("float32")
keras.utils.set_random_seed(3)
rule = {"name": "sgd", "learningRate": 0.5}
one, some = keras.Input((), dtype="int64", name="user"), keras.Input((4,), dtype="int64", name="words")
users = downpour.keras.Embedding(3, optimizer=rule, name="users")
bag = downpour.keras.Embedding(2, combiner="mean", padding_idx=0, optimizer=rule, table="of_words")
out = keras.layers.Dense(1)(keras.layers.Concatenate()([users(one), bag(some)]))
model = keras.Model({"user": one, "words": some}, out)
model.compile(keras.optimizers.SGD(0.1), "mse")
batches = []

def keys(batch):
    batches.append(batch)
    return {"users": batch[0]["user"], "of_words": batch[0]["words"][:, ::-1]}

def train(**how):
    return downpour.keras.fit(model, x, y, epochs=2, batch_size=20, seed=1, **how)
"""
ALONE = TASK + """
from downpour.local_tables import initial_rows
dense = model.layers[-1]
weight, bias = (value.numpy().astype("float64") for value in dense.weights)
rows = {}
for table, number, ids in ((users, 0, numpy.unique(user)), (bag, 1, numpy.arange(1, 30))):
    keys_of_ids = ids.astype("int64").view("uint64")
    rows[table] = dict(zip(ids.tolist(), initial_rows(table.reader.table, number, 1, keys_of_ids).astype("float64")))
_, history = train(keys=keys)
for (inputs, target) in batches:
    grads, to_weight, to_bias = {users: {}, bag: {}}, 0, 0
    for person, some, wanted in zip(inputs["user"].tolist(), inputs["words"].tolist(), target[:, 0]):
        said = [word for word in some if word]
        mean = numpy.mean([rows[bag][word] for word in said], 0) if said else numpy.zeros(2)
        shown = numpy.concatenate([rows[users][person], mean])
        error = 2 * (shown @ weight[:, 0] + bias[0] - wanted) / len(target)
        to_weight, to_bias = to_weight + error * shown[:, None], to_bias + error
        for table, key, part in [(users, person, weight[:3, 0]), *((bag, w, weight[3:, 0] / len(said)) for w in said)]:
            grads[table][key] = grads[table].get(key, 0) + error * part
    weight, bias = weight - 0.1 * to_weight, bias - 0.1 * to_bias
    for table in grads:
        for key, gradient in grads[table].items():
            rows[table][key] = rows[table][key] - 0.5 * gradient
for table in rows:
    ids, values = table.rows()
    numpy.testing.assert_allclose(values, [rows[table][key] for key in ids.tolist()], rtol=0, atol=1e-5)
numpy.testing.assert_allclose(dense.kernel.numpy(), weight, rtol=0, atol=1e-5)
before = model.predict(x, verbose=0)
print("as by hand", len(batches), [weight.path for weight in model.trainable_weights])
"""
WRONG = TASK + """
train(keys=lambda batch: {"users": batch[0]["user"]})
"""
JOB = TASK + """
train(keys=keys if "hint" in sys.argv else None, validation_data=(x, y))
"""


@unittest.skipUnless(KERAS, "there is no keras for this Python")
class KerasTablesTest(ChildTest):
    def test_rows_are_trained_as_by_hand(self):
        for backend in BACKENDS:
            with self.subTest(backend=backend):
                self.environment["KERAS_BACKEND"] = backend
                self.write(ALONE)
                self.assertIn("as by hand 30", self.alone())
                self.write(WRONG)
                said = self.alone(code=1)
                self.assertRegex(said, "MisuseError: forward asks for the id .* of table of_words .*, which keys= does")
                self.assertNotIn("UnknownError", said.splitlines()[-1])


@unittest.skipUnless(KERAS, "there is no keras for this Python")
class KerasTablesJobTest(OwnJobTest):
    def test_a_job_gives_the_same_with_and_without_keys(self):
        package = self.folder / "trainer"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "task.py").write_text(JOB)
        found = []
        for backend in BACKENDS:
            os.environ["KERAS_BACKEND"] = backend
            self.addCleanup(os.environ.pop, "KERAS_BACKEND", None)
            for how in ("hint", "none"):
                folder = self.folder / f"{backend}-{how}"
                job = downpour.run(self.folder / "job.yaml", folder, tool=own_job.TOOL, module="trainer.task",
                                   package=package, args=[how], python=sys.executable,
                                   set={"cluster.workerCount": 1})  # fmt: skip
                self.addCleanup(job.cancel)
                loss = job.wait(own_job.TRAINED)["evalLoss"]
                tables = map(job.table, ("users", "of_words"))
                found.append([loss, *(dict(zip(ids.tolist(), rows.tolist())) for ids, rows in tables)])
            self.assertEqual(found[-2], found[-1])
            self.assertEqual((len(found[-1][1]), len(found[-1][2])), (40, 29))


if __name__ == "__main__":
    unittest.main()
