"""downpour.keras.fit: beside a worker, a compiled Keras model trains as by its own fit()."""

import importlib.util
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

KERAS = importlib.util.find_spec("keras") is not None
if KERAS:
    import numpy
    from worker import ChildTest
else:
    ChildTest = unittest.TestCase

BACKENDS = [name for name in ("tensorflow", "torch") if importlib.util.find_spec(name)]
MODEL = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy
draws = numpy.random.default_rng(1)
x = draws.standard_normal((120, 6)).astype("float32")
y = (x[:, :1] > 0).astype("int64") + (x[:, 1:2] > 0)
keras.utils.set_random_seed(3)
model = keras.Sequential([
    keras.layers.Input((6,)), keras.layers.Dense(8, "relu", kernel_regularizer=keras.regularizers.L2(0.01)),
    keras.layers.BatchNormalization(), keras.layers.Dropout(0.25 if "drop" in sys.argv else 0.0), keras.layers.Dense(3),
])
optimizer = {
    "sgd": keras.optimizers.SGD(0.05), "momentum": keras.optimizers.SGD(0.02, momentum=0.9),
    "adam": keras.optimizers.Adam(0.01),
}[sys.argv[1]]
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top")])
"""
TASK = MODEL + """
import downpour.keras
options = {"validation_data": (x[:40], y[:40]), "epochs": 3, "batch_size": 16}
{change}
_, history = downpour.keras.fit(model, x, y, **options)
print(list(history))
print([round(float(v), 3) for v in model.evaluate(x[:40], y[:40], verbose=0, batch_size=40)])
"""
REFERENCE = MODEL + """
for step in range(60):
    chosen = numpy.arange(step, step + 16) % 120
    model.train_on_batch(x[chosen], y[chosen])
numpy.savez(sys.argv[2], *[keras.ops.convert_to_numpy(v) for v in model.variables if "float" in v.dtype])
"""
# Two inputs and two outputs, with weights: as dicts, or as lists.
PARTS = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy
draws = numpy.random.default_rng(1)
x = {"a": draws.standard_normal((120, 6)), "b": draws.standard_normal((120, 2, 2)).astype("float32")}
y = {"kind": (x["a"][:, 0] > 0).astype("int64"), "size": x["a"][:, :1] - x["b"][:, 0, 1:]}
weight = draws.random(120)
keras.utils.set_random_seed(3)
inputs = {"a": keras.Input((6,), name="a"), "b": keras.Input((2, 2), name="b")}
joined = keras.layers.Concatenate()([inputs["a"], keras.layers.Flatten()(inputs["b"])])
hidden = keras.layers.Dense(8, "relu")(joined)
outputs = {"kind": keras.layers.Dense(2, name="kind")(hidden), "size": keras.layers.Dense(1, name="size")(hidden)}
losses = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}
metrics = {"kind": ["accuracy"], "size": ["mae"]}
if sys.argv[1] == "lists":
    x, y, inputs, outputs, losses, metrics = [list(part.values()) for part in (x, y, inputs, outputs, losses, metrics)]
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.SGD(0.05), losses, metrics=metrics)
"""
FIT_PARTS = PARTS + """
import json, downpour.keras
_, history = downpour.keras.fit(
    model, x, y, sample_weight=weight, validation_data=(x, y, weight), epochs=2, batch_size=120)
print(json.dumps([history[-1], model.evaluate(x, y, 120, 0, weight, return_dict=True)]))
"""
# What is no mean: of all examples at once by Keras, and of batches of 16 by the job, the last of which has one example.
SUMMED = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy, downpour.keras
draws = numpy.random.default_rng(1)
x = draws.standard_normal((97, 6)).astype("float32")
y = (x[:, :1] + draws.standard_normal((97, 1)) > 0).astype(sys.argv[1])
keras.utils.set_random_seed(3)
class First(keras.Sequential):  # what it adds stands before the others
    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return {"own": 0.25, **super().compute_metrics(x, y, y_pred, sample_weight)}
model = First([keras.Input((6,)), keras.layers.Dense(1, "sigmoid")])
kinds = keras.metrics
model.compile("sgd", "binary_crossentropy", metrics=[
    "mae", kinds.AUC(20_000, name="auc"), kinds.Precision(name="sure"), kinds.Recall(0.4, name="found"),
    kinds.RootMeanSquaredError(name="root"), kinds.BinaryAccuracy(name="accuracy")])
stop = keras.callbacks.EarlyStopping(sys.argv[2], patience=5)
_, history = downpour.keras.fit(model, x, y, validation_data=(x, y), epochs=2, batch_size=16, callbacks=[stop])
print(json.dumps([history[-1], model.evaluate(x, y, 97, 0, return_dict=True)]))
"""
TRAIN_PARTS = PARTS + """
pick = lambda data, rows: ({name: value[rows] for name, value in data.items()} if isinstance(data, dict) else
                           [value[rows] for value in data])
for step in range(30):
    rows = numpy.arange(step, step + 16) % 120
    model.fit(pick(x, rows), pick(y, rows), sample_weight=weight[rows], batch_size=16, verbose=0)
numpy.savez(sys.argv[2], *[keras.ops.convert_to_numpy(v) for v in model.variables if "float" in v.dtype])
"""
ONE = """model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(1, 'sigmoid')])
y = (y > 0).astype('float32')[:, None]; options['validation_data'] = (x, y)
"""
REFUSALS = [
    ("model = keras.Sequential([keras.layers.Dense(3)])", "the model is not built or not compiled"),
    ("model.compile('rmsprop', 'mse')", "parameter servers have no RMSprop as Keras has it"),
    ("model.compile(keras.optimizers.Adam(amsgrad=True), 'mse')", "no Adam with amsgrad=True: leave that out"),
    ("model.compile(keras.optimizers.SGD(clipnorm=1.0), 'mse')", "no SGD with clipnorm=1.0"),
    (ONE + "model.compile('sgd', 'mse', metrics=[keras.metrics.R2Score()])",
     "the metric r2_score is no mean over examples"),
    (ONE + "model.compile('sgd', 'mse', metrics=[keras.metrics.AUC(curve='PR')])", "auc.* is an AUC of the curve PR"),
    (ONE + "model.compile('sgd', 'mse', metrics=[keras.metrics.Precision([0.2, 0.5])])",
     "is 2 numbers: give it one threshold"),
    ("own = keras.metrics.MeanMetricWrapper; model.compile('sgd', 'mse', metrics=[own("
     "keras.losses.mean_absolute_error, name=name) for name in ('a b', 'a+b')])",
     "two metrics come to the name a_b: give them other ones, of letters, digits, _"),
    ("own = keras.metrics.MeanMetricWrapper; model.compile('sgd', 'mse', metrics=[own("
     "keras.losses.mean_absolute_error, name='evalLoss')])", "a metric cannot have the name 'evalLoss'"),
    ("options['epochs'] = 0", "epochs is 0"),
    ("x = [x, x[:7]]", r"the arrays of the data have \[7, 120\] rows"),
    ("x = {'a': 3}", "the data have a int: give arrays with a row an example"),
    ("y = None; options['sample_weight'] = x[:, 0]", "a sample_weight but no y: give both"),
    ("model.compile('sgd', 'mse', weighted_metrics=['mae']); options['sample_weight'] = x[:, 0]",
     "weighted_metrics are no means over examples"),
    ("model.compile('sgd', 'mse', weighted_metrics=['mae']); options['validation_data'] = (x, y, x[:, 0])",
     "weighted_metrics are no means over examples"),
    ("class Own(keras.Sequential):\n    def train_step(self, data): pass\nmodel = Own([keras.Input((6,)), "
     "keras.layers.Dense(3)])\nmodel.compile('sgd', 'mse')", "the model has a train_step of its own"),
]


@unittest.skipUnless(KERAS and BACKENDS, "Keras is not there: tools/dev/keras_environment makes a Python that has it")
class KerasTest(ChildTest):
    def setUp(self):
        super().setUp()
        self.environment["CUDA_VISIBLE_DEVICES"] = ""

    def task(self, change=""):
        self.write(TASK.replace("{change}", change))

    def test_60_steps_are_those_of_keras(self):
        for backend in BACKENDS:
            self.environment["KERAS_BACKEND"] = backend
            for kind, rate in (("sgd", 0.05), ("momentum", 0.02)):
                with self.subTest(backend=backend, kind=kind):
                    self.task()
                    worker = self.work(kind)
                    self.assertRegex(worker.first["ready"]["arithmetic"], f"^keras .* on {backend}$")
                    velocity = {name: 0 for name in worker.names}
                    fixed = {v["name"] for v in worker.first["ready"]["variables"] if not v["trainable"]}
                    self.assertEqual(len(fixed), 2)
                    for step in range(60):
                        worker.train(([number % 120 for number in range(step, step + 16)], step))
                        for name in worker.names:
                            gradient = worker.gradient(name)
                            keep, by = (0, 1) if name in fixed else (0.9 * (kind == "momentum"), rate)
                            velocity[name] = keep * velocity[name] + gradient
                            worker.parameter(name)[...] -= by * velocity[name]
                    self.write(REFERENCE, "reference")
                    self.alone(kind, str(self.folder / "end.npz"), module="reference")
                    end = numpy.load(self.folder / "end.npz")
                    for name, value in zip(worker.names, end.values()):
                        numpy.testing.assert_allclose(worker.parameter(name), value, atol=1e-5, err_msg=name)

    def test_several_inputs_and_outputs_train_as_by_keras(self):
        for backend in BACKENDS:
            self.environment["KERAS_BACKEND"] = backend
            for form in ("dicts", "lists"):
                with self.subTest(backend=backend, form=form):
                    self.write(FIT_PARTS)
                    worker = self.work(form)
                    for step in range(30):
                        worker.train(([number % 120 for number in range(step, step + 16)], step))
                        for name in worker.names:
                            worker.parameter(name)[...] -= 0.05 * worker.gradient(name)
                    self.write(TRAIN_PARTS, "reference")
                    self.alone(form, str(self.folder / "end.npz"), module="reference")
                    for name, value in zip(worker.names, numpy.load(self.folder / "end.npz").values()):
                        numpy.testing.assert_allclose(worker.parameter(name), value, atol=1e-5, err_msg=name)
                    answer = worker.ask({"evaluate": {"batches": [list(range(100)), list(range(100, 120))]}})
                    self.assertEqual(answer["evaluated"]["examples"], 120)

                    history, evaluated = json.loads(self.alone(form).splitlines()[-1])
                    self.assertEqual(set(history) - {"epoch", "loss", "evalLoss"}, set(evaluated) - {"loss"})
                    evaluated["evalLoss"] = evaluated.pop("loss")
                    self.assertIn("kind_accuracy", evaluated)
                    for name, value in evaluated.items():
                        self.assertAlmostEqual(history[name], value, delta=1e-4, msg=name)

    def test_what_is_no_mean_is_that_of_all_examples(self):
        for backend in BACKENDS:
            self.environment["KERAS_BACKEND"] = backend
            for labels, monitor in (("float32", "val_auc"), ("int64", "val_root")):
                with self.subTest(backend=backend, labels=labels):
                    self.write(SUMMED)
                    history, evaluated = json.loads(self.alone(labels, monitor).splitlines()[-1])
                    self.assertEqual(set(history) - {"epoch", "loss", "evalLoss"}, set(evaluated) - {"loss"})
                    evaluated["evalLoss"] = evaluated.pop("loss")
                    for name, value in evaluated.items():
                        self.assertAlmostEqual(history[name], value, delta=2e-3 if name == "auc" else 1e-5, msg=name)

    def test_what_is_described_and_evaluated(self):
        for backend in BACKENDS:
            self.environment["KERAS_BACKEND"] = backend
            with self.subTest(backend=backend):
                self.task()
                description, initial, _ = self.describe("adam")
                self.assertEqual((description["classes"], description["metrics"]), (3, [
                    {"name": "top", "kind": "mean", "better": "more"}]))
                self.assertEqual(description["settings"]["training.optimizer"]["name"], "adam")
                worker = self.work("adam")
                before = {name: worker.parameter(name).copy() for name in worker.names}
                batches = {"evaluate": {"batches": [list(range(30)), list(range(30, 40))]}}
                answer = worker.ask(batches)["evaluated"]
                self.assertEqual(answer["examples"], 40)
                self.assertTrue(0 < answer["correct"] <= answer["metricSums"][0] <= 40)
                for name, value in before.items():
                    numpy.testing.assert_array_equal(worker.parameter(name), value)
                self.assertEqual(worker.ask(batches)["evaluated"], answer)

    def test_defaults_of_the_job_go_behind_the_arguments(self):
        self.task('options["job"] = {"training": {"epochs": 9, "consistency": "sync", "optimizer": {"name": "sgd"}}}')
        settings = self.describe("adam")[0]["settings"]
        self.assertEqual(settings.pop("training.optimizer")["name"], "adam")
        self.assertEqual(settings, {"training.epochs": 3, "training.batchSize": 16, "training.consistency": "sync"})

    def test_draws_are_the_plans(self):
        for backend in BACKENDS:
            self.environment["KERAS_BACKEND"] = backend
            with self.subTest(backend=backend):
                self.task()
                worker, other = self.work("sgd", "drop"), self.work("sgd", "drop")
                other.train((range(9), 4))
                first = worker.train((range(16), 7))
                self.assertEqual(other.train((range(16), 7)), first)
                self.assertNotEqual(other.train((range(16), 8)), first)

    def test_by_itself(self):
        for backend in BACKENDS:
            self.environment["KERAS_BACKEND"] = backend
            with self.subTest(backend=backend):
                self.task()
                *_, said, evaluated = self.alone("adam").splitlines()
                first, _, last = eval(said)
                self.assertLess(last["evalLoss"], first["evalLoss"])
                loss, accuracy, top = eval(evaluated)
                self.assertAlmostEqual(last["evalLoss"], loss, delta=2e-3, msg="the model has the last values")
                self.assertAlmostEqual(last["evalAccuracy"], accuracy, delta=2e-3)
                self.assertAlmostEqual(last["top"], top, delta=2e-3)

    def test_a_model_gets_its_values_back(self):
        """As downpour.Job.load_state_dict gives them, also to one that was made again and has other names."""
        code = MODEL + """
from downpour.keras import load_values
values = {v.path: numpy.full(v.shape, n, "float32") for n, v in enumerate(model.variables) if "float" in v.dtype}
again = keras.models.clone_model(model)
for one in (model, again):
    load_values(one, values)
    kept = [v for v in one.variables if "float" in v.dtype]
    for value, variable in zip(values.values(), kept):
        assert (keras.ops.convert_to_numpy(variable) == value).all(), variable.path
small = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(2)])
try:
    load_values(small, values)
except ValueError as error:
    print(str(error).partition(":")[0])
"""
        for backend in BACKENDS:
            with self.subTest(backend=backend):
                self.environment["KERAS_BACKEND"] = backend
                self.write(code)
                self.assertRegex(self.alone("sgd"), r"the model has .*\[6, 2\].*but the job trained .*\[6, 8\]")

    def test_what_is_refused(self):
        self.environment["KERAS_BACKEND"] = BACKENDS[0]
        for change, sentence in REFUSALS:
            with self.subTest(change=change):
                self.task(change)
                self.assertRegex(self.describe("sgd", code=78)[2].splitlines()[-1], "^downpour: .*" + sentence)


if __name__ == "__main__":
    other = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", "build")) / "keras/bin/python3"
    if not KERAS and other.exists():
        os.execv(other, [str(other), *sys.argv])
    unittest.main()
