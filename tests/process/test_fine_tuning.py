"""model.initializeFrom: a job that begins with the values of a file, whoever dies before its first checkpoint."""

import json
import signal
import struct
import unittest

from cluster import ProcessTest, complete, kill, task_of, wait_for_death

# A rate at which no value of these sizes changes.
STILL = {"optimizer": {"name": "sgd", "learningRate": 1e-30}}
SHAPES = {"dense_0/kernel": [64, 16], "dense_0/bias": [16], "dense_1/kernel": [16, 10], "dense_1/bias": [10]}


def write_safetensors(path, tensors):
    """{name: (shape, values)}"""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    """{name: values}"""
    content = path.read_bytes()
    length = struct.unpack_from("<Q", content)[0]
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    header.pop("__metadata__", None)
    return {name: struct.unpack("<%df" % ((t["data_offsets"][1] - t["data_offsets"][0]) // 4),
                                data[slice(*t["data_offsets"])]) for name, t in header.items()}  # fmt: skip


def count_up(shape, first):
    elements = 1
    for size in shape:
        elements *= size
    return [first + i / 8192 for i in range(elements)]  # exact as float32, and none is 0


class FineTuningTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "m.safetensors"

    def write_model(self, first=0.125, names=tuple(SHAPES)):
        tensors = {name: (SHAPES[name], count_up(SHAPES[name], first)) for name in names}
        write_safetensors(self.model, tensors)
        return {name: tuple(values) for name, (_, values) in tensors.items()}

    def write_tuned_job(self, epochs=1_000_000, **model):
        """One that writes a checkpoint only at its end: by default it goes on until it is told to stop."""
        model = model or {"initializeFrom": "m.safetensors"}
        self.write_job(training={"epochs": epochs, **STILL}, checkpoint={"every": "0s"}, model=model)

    def export(self):
        out = self.folder / "out.safetensors"
        code, _, err = self.tool("export", "--job-dir", self.job_dir, "--out", out)
        self.assertEqual(code, 0, err)
        return read_safetensors(out)

    def start_chief(self, *flags):
        return self.start("chief", f"--job={self.job_file}", f"--job_dir={self.job_dir}", *flags)

    def staged(self):
        return (self.job_dir / "initial/initial.shard").read_bytes()

    def test_one_jobs_export_starts_another_at_its_accuracy(self):
        self.write_job()
        self.assertEqual(self.start_run().finish()[0], 0)
        trained = self.check_success()
        self.assertGreater(trained["evalAccuracy"], 0.9)
        self.assertEqual(self.tool("export", "--job-dir", self.job_dir, "--out", self.model)[0], 0)

        self.job_dir = self.folder / "second"
        self.write_job(training={"epochs": 1, **STILL}, model={"initializeFrom": "m.safetensors"}, seed=9)
        code, out, err = self.tool("check", self.job_file)
        self.assertEqual(code, 0, err)
        self.assertIn(f"Begins with   4 variables from {self.model}\n", out)
        self.assertEqual(self.start_run().finish()[0], 0)
        self.assertEqual(self.check_success()["evalAccuracy"], trained["evalAccuracy"])
        self.assertIn("4 variables from", (self.job_dir / "logs/chief.log").read_text())

        # The copy counts: trained further without the file, and in the same plan.
        self.model.unlink()
        further = ("--resume", "--set", "training.epochs=2")
        code, _, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, *further)
        self.assertEqual(code, 0, err)

    def test_a_server_that_dies_before_the_first_checkpoint_gets_the_files_values_again(self):
        values = self.write_model()
        self.write_tuned_job()
        run = self.start_run()
        status = self.wait_until(lambda s: complete(s) and s["progress"].get("leasesCommitted", 0) > 3)
        self.model.unlink()  # nobody needs it any more
        for name in ("ps-0", "ps-1", "chief"):
            chief = json.loads((self.job_dir / "chief.json").read_text())
            pid = task_of(status, name).get("pid", chief["pid"])
            kill(pid)
            wait_for_death(pid)
        old = [task_of(status, name)["pid"] for name in ("ps-0", "ps-1")]
        self.wait_until(
            lambda s: complete(s)
            and not any(task_of(s, name)["pid"] in old for name in ("ps-0", "ps-1"))
            and s["progress"].get("leasesCommitted", 0) > 3
        )
        run.signal(signal.SIGTERM)
        run.finish()
        self.check_cancelled()
        self.assertEqual(self.export(), values)

    def test_what_the_file_lacks_begins_as_without_it(self):
        values = self.write_model(names=("dense_1/kernel", "dense_1/bias"))
        self.write_tuned_job(epochs=1)
        self.assertEqual(self.start_run().finish()[0], 0)
        tuned = self.export()
        self.job_dir = self.folder / "without"
        self.write_tuned_job(epochs=1, loss="softmaxCrossEntropy")
        self.assertEqual(self.start_run().finish()[0], 0)
        plain = self.export()
        self.assertEqual({name: tuned[name] for name in values}, values)
        self.assertEqual(tuned["dense_0/kernel"], plain["dense_0/kernel"])
        self.assertNotEqual(tuned["dense_1/kernel"], plain["dense_1/kernel"])

    def test_a_file_that_is_absent_cut_short_or_of_another_model_is_refused_before_anything_starts(self):
        self.write_tuned_job()
        wrong = dict(SHAPES, **{"dense_1/bias": [11]})
        for prepare, why in (
            (lambda: None, "m.safetensors"),
            (lambda: self.model.write_bytes(b"\x09"), "ends at byte 1"),
            (lambda: write_safetensors(self.model, {n: (s, count_up(s, 1)) for n, s in wrong.items()}),
             "its tensor dense_1/bias has the shape [11], and the model's variable [10]"),
        ):  # fmt: skip
            prepare()
            code, _, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
            self.assertEqual(code, 78, err)
            self.assertIn("model.initializeFrom: ", err)
            self.assertIn(why, err)
            self.assertFalse(self.job_dir.exists())
            chief = self.start_chief()
            self.assertEqual(chief.finish()[0], 78, chief.said)
            self.assertIn("model.initializeFrom: ", chief.said)
            self.assertIn(why, chief.said)
            for made in sorted(self.job_dir.rglob("*"), reverse=True):
                self.assertNotEqual(made.name, "MANIFEST")
                made.rmdir() if made.is_dir() else made.unlink()
            self.job_dir.rmdir()

    def test_a_job_that_goes_on_keeps_what_it_began_with_and_another_run_does_not(self):
        self.write_model(first=0.125)
        self.write_tuned_job()
        chief = self.start_chief()
        chief.wait_for_line("waits for its tasks at")
        began = self.staged()
        kill(chief.pid)
        chief.finish()
        self.write_model(first=0.25)
        chief = self.start_chief()
        chief.wait_for_line("waits for its tasks at")
        self.assertEqual(self.staged(), began)
        chief.signal(signal.SIGTERM)  # without a checkpoint the job is over
        self.assertEqual(chief.finish()[0], 143, chief.said)
        chief = self.start_chief()
        chief.wait_for_line("waits for its tasks at")
        self.assertNotEqual(self.staged(), began)
        kill(chief.pid)
        chief.finish()

        # Without the copy nothing starts, though the file is there: it may be another one by now.
        (self.job_dir / "initial/MANIFEST").unlink()
        chief = self.start_chief()
        self.assertEqual(chief.finish()[0], 1, chief.said)
        self.assertIn("the copy of model.initializeFrom's values cannot be used: ", chief.said)


if __name__ == "__main__":
    unittest.main()
