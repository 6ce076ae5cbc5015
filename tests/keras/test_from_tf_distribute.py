"""docs/FROM_OTHER_FRAMEWORKS.md: the programs of TensorFlow and Keras, before and after."""

import importlib.util
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

TENSORFLOW = all(importlib.util.find_spec(name) for name in ("tensorflow", "keras"))
if TENSORFLOW:
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", KERAS_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES="")
    from programs_of_page import CHANCE, PageTest, programs
else:
    PageTest = unittest.TestCase

WAIT = ("ParameterServerStrategy", "MultiWorkerMirroredStrategy")


@unittest.skipUnless(TENSORFLOW, "tensorflow is not there: tools/dev/keras_environment makes a Python that has it")
class StrategiesPageTest(PageTest):
    def test_before_they_are_refused_with_the_line_to_write(self):
        for name in WAIT:
            with self.subTest(name):
                self.is_refused(programs(name)[0], rf"{name} would wait for ever in a job: .* downpour\.keras\.fit\(")
        self.is_refused(programs("TPUStrategy")[0], r"TPUStrategy finds no TPU in a job: .* downpour\.keras\.fit\(")

    def test_one_host_before_trains_by_itself_and_is_told_to_call_fit(self):
        self.is_refused(programs("MirroredStrategy")[0], "never called downpour.fit")

    def test_after_they_train_and_leave_the_model(self):
        import keras

        for number, name in enumerate((*WAIT, "MirroredStrategy")):
            with self.subTest(name):
                _, after = programs(name)
                summary = self.trains(after, number)
                model = keras.models.load_model(self.folder / "model.keras")
                self.assertEqual(model.output_shape, (None, 10))
                (self.folder / "model.keras").unlink()
                if "evalAccuracy" in summary:
                    self.assertGreater(summary["evalAccuracy"], 2 * CHANCE)


if __name__ == "__main__":
    other = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", "build")) / "keras/bin/python3"
    if not TENSORFLOW and other.exists():
        os.execv(other, [str(other), *sys.argv])
    unittest.main()
