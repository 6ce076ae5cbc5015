"""What a job leaves for TensorBoard, read by TensorBoard: every tag and every step of metrics.jsonl."""

import importlib.util
import json
import math
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "process"))

from cluster import ProcessTest  # noqa: E402

TENSORBOARD = importlib.util.find_spec("tensorboard") is not None
PLACE = {"kind", "time", "elapsed", "step", "epoch"}


def numbers(values, tag):
    """(tag, value) of all numbers in a line."""
    for key, value in values.items():
        name = tag if key in ("tasks", "metrics") else f"{tag}/{key}"
        if isinstance(value, dict):
            yield from numbers(value, name)
        elif value is not None:
            yield name, value


@unittest.skipUnless(TENSORBOARD, "tensorboard is not there: tools/dev/keras_environment makes a Python that has it")
class HistoryTest(ProcessTest):
    def test_every_scalar_of_the_history_is_read(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.plugins.hparams import metadata

        # So long that the tasks tell several times what they use.
        self.write_job(training={"metrics": ["top2", "logLoss"], "epochs": 200})
        run = self.start_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        told = {}
        for text in (self.job_dir / "metrics.jsonl").read_text().splitlines():
            line = json.loads(text)
            if line["kind"] == "job":
                settings = line["hyperparameters"]
                continue
            step = line["epoch" if line["kind"] == "epoch" else "step"]
            values = {key: value for key, value in line.items() if key not in PLACE}
            if line["kind"] == "train":
                values["epoch"] = line["epoch"]
            for tag, value in numbers(values, line["kind"]):
                told.setdefault(tag, []).append((step, line["time"], value))
        for tag in ("train/loss", "train/learningRate", "epoch/loss", "eval/accuracy", "eval/top2", "eval/logLoss"):
            self.assertIn(tag, told)
        self.assertIn("tasks/worker-0/memoryBytes", told)
        self.assertEqual(len(told["epoch/loss"]), len({step for step, _, _ in told["epoch/loss"]}))

        events = EventAccumulator(str(self.job_dir), size_guidance={"scalars": 0})
        events.Reload()
        self.assertEqual(set(events.Tags()["scalars"]), set(told))
        for tag, points in told.items():
            read = events.Scalars(tag)
            self.assertEqual([event.step for event in read], [step for step, _, _ in points], tag)
            self.assertEqual([event.wall_time for event in read], [time for _, time, _ in points], tag)
            for event, (_, _, value) in zip(read, points):
                self.assertTrue(math.isclose(event.value, value, rel_tol=1e-6), (tag, event, value))

        content = events.PluginTagToContent(metadata.PLUGIN_NAME)[metadata.SESSION_START_INFO_TAG]
        start = metadata.parse_session_start_info_plugin_data(content)
        self.assertEqual(set(start.hparams), set(settings))
        self.assertEqual(start.hparams["training.batchSize"].number_value, settings["training.batchSize"])
        self.assertEqual(start.hparams["training.optimizer.name"].string_value, settings["training.optimizer.name"])
        self.assertEqual(start.group_name, self.job["name"])


if __name__ == "__main__":
    other = pathlib.Path(os.environ.get("DOWNPOUR_BUILD", "build")) / "keras/bin/python3"
    if not TENSORBOARD and other.exists():
        os.execv(other, [str(other), *sys.argv])
    unittest.main()
