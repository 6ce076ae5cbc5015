"""What model.fit takes besides the data: as by Keras's own fit, as keys of the job file, or refused with the remedy."""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

from test_keras import BACKENDS, KERAS, MODEL, ChildTest

if KERAS:
    import numpy
    from cluster import TOOL

FIT = MODEL + """
import json, downpour.keras
options = {"validation_data": (x[:40], y[:40]), "epochs": 3, "batch_size": 16}
{change}
model, history = downpour.keras.fit(model, x, y, **options)
print(json.dumps([history, model.evaluate(x[:40], y[:40], verbose=0, batch_size=40)]))
"""
# Whole batches, so that an order of rows makes no difference.
WHOLE = MODEL + """
import json, downpour.keras
x = x.astype("float64")
options = {"class_weight": {0: 3.0, 2: numpy.float32(0.5)}, "validation_split": 0.25, "epochs": 6, "batch_size": 90}
if sys.argv[3] == "onehot":
    y = keras.utils.to_categorical(y, 3)
    model.compile(optimizer, keras.losses.CategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
if sys.argv[3] == "flat":
    y = y[:, 0]
if sys.argv[3] == "weight":
    options["sample_weight"] = numpy.linspace(0, 1, 120)
    del options["class_weight"]
if sys.argv[2] == "keras":
    said = model.fit(x, y, verbose=0, **options).history
    last = {"loss": said["loss"][-1], "evalLoss": said["val_loss"][-1], "accuracy": said["val_accuracy"][-1]}
else:
    _, history = downpour.keras.fit(model, x, y, verbose=0, shuffle=True, steps_per_epoch=None, **options)
    last = dict(history[-1])
    last["accuracy"] = last.pop("evalAccuracy", last.get("accuracy"))
print(json.dumps([last, [keras.ops.convert_to_numpy(v).tolist() for v in model.trainable_variables]]))
"""
# The same data as rows of a file, with and without the label.
FILES = """
import downpour
path = sys.argv[2] + ".csv"
numpy.savetxt(path, numpy.column_stack([x, y[:, 0]]), delimiter=",", header="a,b,c,d,e,f,y", comments="",
              fmt=["%.9g"] * 6 + ["%d"])
rows = downpour.data.csv(path, list("abcdef"), "y")
bare = downpour.data.csv(path, list("abcdef"))
"""
ROWS = MODEL + FILES + """
import json, downpour.keras
_, history = downpour.keras.fit(model, rows, validation_data=rows, epochs=8, batch_size=16, verbose=0)
print(json.dumps([history, model.evaluate(x, y, verbose=0, batch_size=120)]))
"""
CALLBACKS = [
    ("EarlyStopping()", {"training.stopEarly": {"metric": "loss", "patience": 1, "minDelta": 0.0}}),
    ("EarlyStopping('val_accuracy', 0.01, 4, restore_best_weights=True)",
     {"training.stopEarly": {"metric": "accuracy", "patience": 4, "minDelta": 0.01}, "checkpoint.best": "accuracy"}),
    ("ModelCheckpoint('best.keras', save_best_only=True)", {"checkpoint.best": "loss"}),
    ("ModelCheckpoint('all.keras')", {}),
    ("TerminateOnNaN()", {"training.maxSkippedPushes": 0}),
    ("History()", {}),
    ("BackupAndRestore('folder')", {}),
    ("LearningRateScheduler(lambda epoch, rate: rate)",
     {"training.optimizer": {"name": "sgd", "learningRate": 0.05}}),
    ("LearningRateScheduler(lambda epoch: 0.4 * 0.5 ** (epoch // 2))",
     {"training.optimizer": {"name": "sgd", "learningRate": 0.4,
                             "schedule": {"name": "step", "stepEvery": 16, "decay": 0.5}}}),
    ("LearningRateScheduler(lambda epoch, rate: rate * 0.9)",
     {"training.optimizer": {"name": "sgd", "learningRate": 0.045,
                             "schedule": {"name": "step", "stepEvery": 8, "decay": 0.9}}}),
]
CALLED = MODEL + """
import json
from downpour.keras_callbacks import settings_of_callbacks
given = {"training.epochs": 3, "training.batchSize": 16, "training.optimizer": {"name": "sgd", "learningRate": 0.05}}
for made in json.load(open(sys.argv[2])):
    callback = eval("keras.callbacks." + made)
    print(json.dumps(settings_of_callbacks([callback], given, 120, {"loss": "min", "accuracy": "max"})))
"""
SCHEDULES = [
    "ExponentialDecay(0.1, 20, 0.7)", "ExponentialDecay(0.1, 20, 0.7, staircase=True)", "CosineDecay(0.1, 50)",
    "CosineDecay(0.1, 50, alpha=0.2)", "CosineDecay(0.0, 50, warmup_target=0.3, warmup_steps=10)",
]
RATES = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
from downpour.keras_optimizers import settings_of
from downpour.local_optimizer import rate_share
for made in %r:
    schedule = eval("keras.optimizers.schedules." + made)
    settings = settings_of(keras.optimizers.SGD(schedule))
    warmup = settings["schedule"].get("warmupSteps", 0)
    for step in [*range(warmup, 70), *range(warmup)]:
        ours = settings["learningRate"] * rate_share(settings["schedule"], step, 9)
        wanted = float(schedule(step + 1 if step < warmup else step))  # which rises from the first step on
        assert abs(ours - wanted) <= 1e-6, (made, step, ours, wanted)
"""
# `c` and `s` are keras.callbacks and keras.optimizers.schedules.
OWN = "class Own(keras.callbacks.Callback): pass\n"
REFUSALS = [
    ("options['callbacks'] = 'stop'", "callbacks is a str: give a list of those of keras.callbacks"),
    (OWN + "options['callbacks'] = [Own()]", "callbacks has an Own, which no process .*: do it behind fit"),
    ("options['callbacks'] = [c.TensorBoard('logs')]", "a TensorBoard, .*: leave it out, since `tensorb"),
    ("options['callbacks'] = c.ReduceLROnPlateau()", "a ReduceLROnPlateau, .*: give optimizer= with a sc"),
    ("options['callbacks'] = [c.EarlyStopping('loss')]",
     "EarlyStopping monitors loss, by which no job compares evaluations: monitor val_loss or val_accuracy"),
    ("options['callbacks'] = [c.EarlyStopping('val_nothing')]", "monitors val_nothing, .*: monitor val_loss or "),
    ("model.compile('sgd', 'mse', metrics=['mae'])\n"
     "options['callbacks'] = [c.EarlyStopping('val_mae', mode='max')]", "mode='max', but of val_mae it is 'min'"),
    ("model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(3)]); model.compile('sgd', 'mse')\n"
     "y = x[:, :3]; options['validation_data'] = (x, y)\noptions['callbacks'] = c.EarlyStopping('val_accuracy')",
     "no job compares .*: monitor val_loss$"),
    ("del options['validation_data']; options['callbacks'] = c.EarlyStopping()",
     "EarlyStopping monitors val_loss, .*: give validation_data= or validation_split="),
    ("options['callbacks'] = [c.EarlyStopping(mode='max')]", "has mode='max', but of val_loss it is 'min'"),
    ("options['callbacks'] = [c.EarlyStopping(baseline=0.5)]", "EarlyStopping has baseline=0.5, which no"),
    ("options['callbacks'] = [c.EarlyStopping(patience=1), c.EarlyStopping(patience=2)]",
     "two callbacks give training.stopEarly, as .*: leave one of them out"),
    ("options['callbacks'] = c.LearningRateScheduler(lambda epoch: [0.1, 0.1, 0.05][epoch] * (epoch + 1))",
     r"LearningRateScheduler has the rates 0.1, 0.2, 0.15, which are no decay"),
    ("options['callbacks'] = c.LearningRateScheduler(lambda epoch: 0.1 * (epoch > 1))", "are no decay"),
    ("model.compile(keras.optimizers.SGD(s.CosineDecay(0.1, 9)), 'mse')\n"
     "options['callbacks'] = c.LearningRateScheduler(lambda epoch: 0.1)",
     "there is a LearningRateScheduler, but the optimizer has a schedule"),
    ("model.compile(keras.optimizers.SGD(s.PolynomialDecay(0.1, 9)), 'mse')",
     "learning rate is a schedule, PolynomialDecay, that servers do not have: parameter servers have warm-up"),
    ("model.compile(keras.optimizers.SGD(s.CosineDecay(0.1, 9, warmup_target=1., "
     "warmup_steps=3)), 'mse')", "CosineDecay warms up from 0.1, but servers do so from 0: give it initial_le"),
    ("model.compile(keras.optimizers.SGD(s.ExponentialDecay(0.1, 9, 1.5)), 'mse')",
     "ExponentialDecay has decay_rate=1.5, but here rates may only fall"),
    ("options['class_weight'] = {0: float('nan')}", "class_weight is {0: nan}, but must be a dict of finite numbers"),
    ("options.update(class_weight={0: 2}, sample_weight=x[:, 0])", "takes the place of sample_weight: give one of the"),
    ("x, y = {'a': x}, None; options['class_weight'] = {0: 2}", "class_weight needs y"),
    ("y = [y, y]; options['class_weight'] = {0: 2}", "class_weight is for one output of classes"),
    ("del options['validation_data']; options['validation_split'] = 1.0", "validation_split is 1.0, but must be above"),
    ("del options['validation_data']; options['validation_split'] = 0.999",
     "validation_split is 0.999, which leaves one part of 120 rows empty"),
    ("options['validation_data'] = x", r"validation_data is a ndarray: give \(x, y\) or \(x, y, sample_weight\)"),
    ("options['validation_freq'] = [1, 3]", r"validation_freq is \[1, 3\], but must be a whole number"),
    ("x, y = rows, None; options['validation_data'] = bare", "the rows have no label: name one"),
    ("x, y = bare, None", "the rows have no label: name one"),
    ("x = rows", "the rows have their labels: leave y and sample_weight out"),
    ("x, y = rows, None; options['class_weight'] = {0: 2}", "rows of files have no class_weight"),
    ("x, y = rows, None; del options['validation_data']; options['validation_split'] = 0.5",
     "rows of files are not split: give others as validation_data"),
    ("options['shuffle'] = False", "fit takes no shuffle=: leave it out: a job draws the order"),
    ("options['initial_epoch'] = 3", "fit takes no initial_epoch=: leave it out: a job continues by --resume"),
    ("options['steps_per_epoch'] = 5", "fit takes no steps_per_epoch=: leave it out: an epoch is each example once"),
    ("options['validation_steps'] = 5", "fit takes no validation_steps=: leave it out: all rows"),
    ("options['batchsize'] = 5", "fit takes no batchsize=: did you mean batch_size="),
    ("class Batches(keras.utils.PyDataset):\n    def __len__(self): return 2\n    def __getitem__(self, i): return 1\n"
     "x, y = Batches(), None", r"x is a Batches, of whole batches, .*: write x, y = \(numpy.concatenate\(part\) for "
     r"part in zip\(\*\[DATA\[i\] for i in range\(len\(DATA\)\)\]\)\), and give x and y"),
    ("x = iter(x)", r"x is an iterator, which can be read once, .*: write x, y = .*, and give x and y"),
    ("import tensorflow; x = tensorflow.data.Dataset.from_tensor_slices((x, y)).batch(9)",
     r"x is a \w*BatchDataset, a stream, .*: write x, y = \(numpy.stack\(part\) .* without .batch\(\) and .repeat\("),
    ("import tensorflow; options['validation_data'] = tensorflow.data.Dataset.from_tensor_slices((x, y)).batch(9)",
     r"validation_data is a \w*BatchDataset, a stream, .*, and give \(x, y\)"),
]
ALL_REFUSALS = """
import downpour
c, s = keras.callbacks, keras.optimizers.schedules
kept = dict(globals())
for number, change in enumerate(json.load(open(sys.argv[2]))):
    scope = dict(kept, options=dict(options), model=keras.models.clone_model(model))
    scope["model"].compile(keras.optimizers.SGD(0.05), model.loss, metrics=["accuracy"])
    try:
        exec(change + "\\ndownpour.keras.fit(model, x, y, **options)", scope)
    except downpour.TrainingError as error:
        print(number, " ".join(str(error).split()))
"""


@unittest.skipUnless(KERAS and BACKENDS, "Keras is not there: tools/dev/keras_environment makes a Python that has it")
class KerasArgumentsTest(ChildTest):
    def setUp(self):
        super().setUp()
        self.environment.update(CUDA_VISIBLE_DEVICES="", KERAS_BACKEND=BACKENDS[0])

    def test_weights_of_classes_and_a_split_are_those_of_keras(self):
        for backend in BACKENDS:
            self.environment["KERAS_BACKEND"] = backend
            self.write(WHOLE)
            for form in ("column", "flat", "onehot", "weight"):
                with self.subTest(backend=backend, form=form):
                    said = [json.loads(self.alone("sgd", by, form).splitlines()[-1]) for by in ("keras", "downpour")]
                    for name, value in said[0][0].items():
                        self.assertAlmostEqual(said[1][0][name], value, delta=1e-4, msg=name)
                    for theirs, ours in zip(said[0][1], said[1][1]):
                        numpy.testing.assert_allclose(ours, theirs, atol=1e-5)

    def test_callbacks_are_keys_of_the_job_file(self):
        (self.folder / "callbacks").write_text(json.dumps([made for made, _ in CALLBACKS]))
        self.write(CALLED)
        for (made, wanted), line in zip(CALLBACKS, self.alone("sgd", str(self.folder / "callbacks")).splitlines()):
            with self.subTest(made=made):
                settings = json.loads(line)
                self.assertEqual(settings.keys(), wanted.keys())
                for name, value in wanted.items():
                    self.same(settings[name], value)
        made = "[keras.callbacks.EarlyStopping(), keras.callbacks.ModelCheckpoint('best.keras')]"
        self.write(FIT.replace("{change}", f"options['callbacks'] = {made}"))
        description, _, said = self.describe("sgd")
        self.assertEqual(description["settings"]["training.stopEarly"]["metric"], "loss")
        self.assertIn("ModelCheckpoint does not write best.keras: the job keeps checkpoints by itself", said)

    def same(self, found, wanted):
        if not isinstance(wanted, dict):
            return self.assertEqual(round(found, 6) if isinstance(found, float) else found, wanted)
        self.assertEqual(found.keys(), wanted.keys())
        for name, value in wanted.items():
            self.same(found[name], value)

    def test_rates_that_change_are_those_of_keras(self):
        self.write(RATES % SCHEDULES)
        self.alone()

    def test_by_itself_it_stops_early_with_the_best_values(self):
        self.write(FIT.replace("{change}", """
model.compile(keras.optimizers.SGD(3.0), model.loss, metrics=["accuracy"])
options.update(epochs=60, validation_freq=2, callbacks=keras.callbacks.EarlyStopping(patience=3), verbose=0)
"""))
        said = self.alone("sgd").splitlines()
        self.assertEqual(len(said), 1, "verbose=0 prints nothing")
        history, (loss, _) = json.loads(said[0])
        evaluated = [entry["evalLoss"] for entry in history if "evalLoss" in entry]
        self.assertLess(len(history), 60)
        self.assertEqual(len(evaluated), len(history) // 2)
        self.assertEqual(evaluated.index(min(evaluated)), len(evaluated) - 4)
        self.assertAlmostEqual(loss, min(evaluated), delta=1e-3 * loss)

    def test_rows_of_files_have_x_and_y(self):
        self.environment["DOWNPOUR_TOOL"] = TOOL
        self.write(ROWS)
        history, (loss, accuracy, _) = json.loads(self.alone("adam", str(self.folder / "rows")).splitlines()[-1])
        self.assertAlmostEqual(history[-1]["evalLoss"], loss, delta=1e-4)
        self.assertAlmostEqual(history[-1].get("accuracy", history[-1].get("evalAccuracy")), accuracy, delta=1e-6)
        self.assertLess(loss, history[0]["evalLoss"] / 1.5)

    def test_each_other_is_refused_in_one_sentence_with_the_remedy(self):
        (self.folder / "changes").write_text(json.dumps([change for change, _ in REFUSALS]))
        before = FIT.partition("{change}")[0]
        self.environment["DOWNPOUR_TOOL"] = TOOL
        self.write(before + FILES + ALL_REFUSALS)
        said = self.alone("sgd", str(self.folder / "changes"))
        for number, (change, sentence) in enumerate(REFUSALS):
            with self.subTest(change=change):
                self.assertRegex(said, f"(?m)^{number} .*{sentence}")


if __name__ == "__main__":
    other = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", "build")) / "keras/bin/python3"
    if not KERAS and other.exists():
        os.execv(other, [str(other), *sys.argv])
    unittest.main()
