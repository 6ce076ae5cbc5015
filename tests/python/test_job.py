"""The Python package with the real tool and real clusters: start, look, wait, cancel, checkpoints, parameters."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import unittest

from package import PACKAGE, is_there  # first: it says where the others are

import downpour
from cluster import LONG, TOOL, TRAIN_EXAMPLES, ProcessTest, complete, wait_for_death

NUMPY, TORCH = is_there("numpy"), is_there("torch") and is_there("numpy")

# Begins an endless job, says so, waits for its end, and says what came instead.
WAITER = """
import sys
sys.path.insert(0, sys.argv[1])
import downpour
job = downpour.run(sys.argv[2], sys.argv[3], tool=sys.argv[4])
print("begun", flush=True)
try:
    job.wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def commands_of(pid):
    """Its children: {verb: pid}, of those that are the tool by now."""
    found = {}
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            program, verb = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")[:2]
        except (OSError, ValueError):  # it has just ended
            continue
        if program == str(TOOL):
            found[verb] = int(child)
    return found


def exported(file):
    """Each tensor's shape and bytes, as docs/MODEL_FILE.md tells to read them."""
    data = file.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    body = data[8 + length :]
    return {name: (tuple(t["shape"]), body[slice(*t["data_offsets"])]) for name, t in header.items()}


class JobTest(ProcessTest):
    def begin(self, **options):
        job = downpour.run(self.job_file, self.job_dir, tool=TOOL, **options)
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        """Whatever a test left running."""
        try:
            job.cancel()
        except downpour.ToolError:
            pass

    def train(self):
        self.write_job()
        job = self.begin(set={"training.epochs": 1})
        job.wait(LONG)
        return job

    def refused(self, code, sentence, call, *words, **options):
        with self.assertRaises(downpour.ToolError) as caught:
            call(*words, **options)
        self.assertEqual(caught.exception.exit_code, code, caught.exception)
        self.assertIn(sentence, str(caught.exception))

    def test_a_job_from_its_start_to_its_end(self):
        self.write_job()
        job = self.begin(set={"training.epochs": 3, "training.optimizer.learningRate": 0.01, "name": "notebook"})
        summary = job.wait(LONG)
        self.assertEqual(summary, self.summary())
        self.assertEqual((summary["state"], summary["job"]), ("SUCCEEDED", "notebook"))
        self.assertEqual(summary["samplesCommitted"], 3 * TRAIN_EXAMPLES)
        self.assertEqual(job.status(), summary)
        self.assertEqual(downpour.Job(self.job_dir, tool=TOOL).wait(0), summary, "found again, and over already")
        self.assertRegex(repr(summary), r"Job: +notebook SUCCEEDED\nTrained: +3000 examples")
        self.assertIn("<td>notebook SUCCEEDED</td>", summary._repr_html_())
        self.assertEqual(job.checkpoints(), self.checkpoints())
        self.assertEqual(job.checkpoint(), self.checkpoints()[0])
        self.assertEqual(job.checkpoint()["path"], str(self.job_dir / summary["checkpoint"]))
        self.assertIn("worker-1", job.logs())
        self.assertEqual(job.logs("chief"), self.tool("logs", "chief", "--job-dir", self.job_dir)[1])
        self.refused(2, "there is no log of a task '--follow'", job.logs, "--follow")
        self.refused(1, "already holds a job", downpour.run, self.job_file, self.job_dir, tool=TOOL)
        self.assertRegex(job.cancel(), "notebook SUCCEEDED", "which changes nothing")
        self.assertEqual(job.status(), summary)

    def test_a_job_is_looked_at_cancelled_and_continued(self):
        self.write_endless_job(checkpoint={"every": "200ms"})
        job = self.begin()
        with self.assertRaisesRegex(TimeoutError, "the job has not ended after 0 s, and goes on"):
            job.wait(0)
        first = job.checkpoint(LONG)
        self.assertEqual(first["state"], "complete")
        self.wait_until(complete)
        status = job.status()
        self.assertEqual((status["state"], status["job"], len(status["tasks"])), ("RUNNING", "small", 4))
        self.assertRegex(repr(status), r"Job: +small RUNNING\n(.*\n)*Tasks: +([12] PREPARING, )?[2-4] RUNNING")
        self.refused(1, str(self.job_dir), downpour.run, self.job_file, self.job_dir, tool=TOOL, resume=True)

        self.assertRegex(job.cancel(), r"small CANCELLED: ended by downpour stop\. The last checkpoint is .*--resume")
        with self.assertRaisesRegex(downpour.JobCancelled, r"^ended by downpour stop\. .*--resume") as caught:
            job.wait()
        self.assertEqual(caught.exception.summary, self.summary())
        self.assertGreaterEqual(job.checkpoint()["leasesCommitted"], first["leasesCommitted"])

        before = self.summary()["samplesCommitted"]
        self.begin(resume=True)
        status = self.wait_until(lambda s: complete(s) and s["progress"]["examplesCommitted"] > before)
        self.assertGreater(status["chief"]["term"], self.summary()["term"])

    # By an object that did not start the job, and knows nothing of the `downpour run` that holds the folder.
    def test_a_folder_is_free_once_its_job_was_cancelled_or_waited_for(self):
        self.write_endless_job(checkpoint={"every": "200ms"})
        other = downpour.Job(self.job_dir, tool=TOOL)
        self.begin()
        for _ in range(3):
            other.checkpoint(LONG)
            other.cancel()
            self.begin(resume=True)
        self.assertEqual(self.tool("stop", "--job-dir", self.job_dir)[0], 0)
        with self.assertRaises(downpour.JobCancelled):
            other.wait(LONG)
        self.begin(resume=True)

    def test_a_job_that_fails(self):
        self.write_job(training={"epochs": 1, "maxSkippedPushes": 5, "optimizer": {"learningRate": 1e30}})
        job = self.begin()
        with self.assertRaises(downpour.JobFailed) as caught:
            job.wait(LONG)
        self.assertEqual(caught.exception.summary, self.summary())
        self.assertEqual(str(caught.exception), self.summary()["errorMessage"])
        self.assertIn("FAILED", job.cancel())

    def test_a_job_that_is_out_of_time(self):
        self.write_endless_job(scheduling={"maxRunningTime": "1s"})
        with self.assertRaisesRegex(downpour.JobCancelled, "1 s of scheduling.maxRunningTime") as caught:
            self.begin().wait(LONG)
        self.assertEqual(caught.exception.summary["exitCode"], 124)

    def test_a_job_without_a_checkpoint(self):
        self.write_endless_job(checkpoint={"every": "0s"})
        job = self.begin()
        self.assertEqual(job.checkpoints(), [])
        with self.assertRaisesRegex(TimeoutError, "no complete checkpoint after 0 s"):
            job.checkpoint(0)
        self.refused(1, "there is no checkpoint in", job.state_dict)

    def test_what_does_not_begin(self):
        self.write_job()
        self.refused(78, "training.epochs: must be a whole number", self.begin, set={"training.epochs": "x"})
        (self.folder / "train-images").unlink()
        self.refused(78, "train-images", self.begin)
        self.job_file.unlink()
        self.refused(78, "cannot be read", self.begin)

    def test_no_function_gives_way_to_a_module_of_its_name(self):
        """A module that is imported later takes its name in the package, and the function is gone."""
        modules = {path.stem for path in pathlib.Path(PACKAGE, "downpour").glob("*.py")}
        self.assertIn("training", modules)
        self.assertEqual(modules & set(downpour.__all__), {"data", "metrics"})

    def test_a_folder_without_a_job(self):
        job = downpour.Job(self.folder / "nothing", tool=TOOL)
        for call in (job.status, job.wait, job.cancel, job.checkpoint):
            self.refused(69, "no chief has listened for", call)
        for call in (job.checkpoints, job.state_dict, job.logs):
            self.refused(1, "nothing", call)
        self.refused(69, "no chief has listened for", downpour.Job(self.folder, tool=TOOL).checkpoints)
        for wrong in ({}, {"job_dir": "a", "chief": "h:1"}):
            with self.assertRaisesRegex(ValueError, "either the job folder, or chief"):
                downpour.Job(**wrong, tool=TOOL)

    def test_a_job_by_the_address_of_its_chief(self):
        self.write_endless_job()
        keys = self.folder / "keys"
        self.assertEqual(self.tool("keys", "new", "--out", keys)[0], 0)
        local = self.begin(keys=keys)
        process = local.status()["chief"]
        chief = process["endpoint"]
        with self.assertRaises(downpour.ToolError):
            downpour.Job(chief=chief, tool=TOOL).status()
        job = downpour.Job(chief=chief, keys=keys, tool=TOOL)
        self.assertEqual(job.status()["chief"]["endpoint"], chief)
        for call in (job.checkpoints, job.checkpoint, job.state_dict, job.logs):
            with self.assertRaisesRegex(ValueError, "this needs the job folder"):
                call()
        with self.assertRaises(TimeoutError):
            job.wait(0)
        self.assertIn("CANCELLED", job.cancel())
        with self.assertRaises(downpour.JobCancelled):
            local.wait(LONG)
        wait_for_death(process["pid"])  # until then it answers how the job ended
        self.refused(69, "cannot reach the chief", job.status)

    # As a notebook's kernel is interrupted: by a signal to its whole process group.
    def test_an_interrupted_wait_leaves_the_job_running(self):
        self.write_endless_job()
        command = [sys.executable, "-c", WAITER, PACKAGE, self.job_file, self.job_dir, TOOL]
        waiter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(waiter.stdout.close)
        self.addCleanup(waiter.wait)
        self.addCleanup(waiter.kill)
        self.assertEqual(waiter.stdout.readline(), "begun\n")
        job = downpour.Job(self.job_dir, tool=TOOL)
        self.addCleanup(self.end, job)
        both = {"run", "watch"}  # the latter is what wait() looks by
        self.wait_until(lambda s: complete(s) and commands_of(waiter.pid).keys() == both)
        commands = commands_of(waiter.pid)
        os.killpg(waiter.pid, signal.SIGINT)
        self.assertEqual(waiter.stdout.readline(), "interrupted\n")
        self.assertEqual(waiter.wait(LONG), 0)
        wait_for_death(commands["watch"])
        done = job.status()["progress"]["leasesCommitted"]
        self.wait_until(lambda s: complete(s) and s["progress"]["leasesCommitted"] > done)
        self.assertTrue(pathlib.Path(f"/proc/{commands['run']}").exists())
        self.assertIn("CANCELLED", job.cancel())

    def test_what_is_no_path_and_no_setting_is_told_by_its_name(self):
        self.write_job()
        for arguments, error, sentence in [
            ((self.job_file, self.job_dir, "training.epochs=3"), TypeError, "set is 'training.epochs=3': give a dict"),
            ((self.job_file, self.job_dir, [("training.epochs", 3)]), TypeError, "as {\"training.epochs\": 3}"),
            ((self.job_file, ""), ValueError, "job_dir is empty: name a file or folder, or '.' for"),
            (("", self.job_dir), ValueError, "job_file is empty"),
        ]:
            file, folder, *settings = arguments
            with self.subTest(arguments=arguments), self.assertRaisesRegex(error, sentence):
                downpour.run(file, folder, tool=TOOL, set=settings[0] if settings else None)
        with self.assertRaisesRegex(ValueError, "job_dir is empty"):
            downpour.Job("", tool=TOOL)

    @unittest.skipUnless(NUMPY, "python3-numpy is not there: no parameters are read")
    def test_the_parameters_are_those_of_the_export(self):
        job = self.train()
        file = self.folder / "model.safetensors"
        self.assertEqual(self.tool("export", "--job-dir", self.job_dir, "--out", file)[0], 0)
        values = job.state_dict()
        self.assertEqual({name: (v.shape, v.tobytes()) for name, v in values.items()}, exported(file))
        self.assertEqual(values["dense_0/kernel"].shape, (64, 16))
        self.assertEqual({str(v.dtype) for v in values.values()}, {"float32"})
        values["dense_0/kernel"][0, 0] = 1  # its own copy
        by_name = job.state_dict(job.checkpoint()["round"])
        self.assertEqual({name: (v.shape, v.tobytes()) for name, v in by_name.items()}, exported(file))
        self.refused(1, "7-7", job.state_dict, "7-7")

    @unittest.skipUnless(TORCH, "python3-torch is not there: no module is loaded")
    def test_the_parameters_in_a_torch_module(self):
        import torch

        job = self.train()
        values = job.state_dict()
        layers = [torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10)]
        module = torch.nn.Sequential(*layers)
        names = {"dense_0": "0", "dense_1": "2"}
        job.load_state_dict(module, names=names)
        x = torch.rand(5, 64)
        hidden = (x.numpy() @ values["dense_0/kernel"] + values["dense_0/bias"]).clip(0)
        logits = hidden @ values["dense_1/kernel"] + values["dense_1/bias"]
        self.assertTrue(torch.allclose(module(x), torch.from_numpy(logits), atol=1e-5))

        tensors = job.load_state_dict()
        self.assertEqual(set(tensors), {f"dense_{i}.{kind}" for i in (0, 1) for kind in ("weight", "bias")})
        with self.assertRaisesRegex(RuntimeError, "Missing key"):
            job.load_state_dict(module)
        self.assertEqual(len(job.load_state_dict(module, strict=False).missing_keys), 4)
        with self.assertRaisesRegex(TypeError, "0 is an Embedding"):
            job.load_state_dict(torch.nn.Sequential(torch.nn.Embedding(16, 64)), strict=False, names=names)
        with self.assertRaisesRegex(ValueError, "names has dense_2"):
            job.load_state_dict(module, names={"dense_2": "0"})
        with self.assertRaisesRegex(ValueError, "two layers would be one module"):
            job.load_state_dict(module, names={"dense_0": "dense_1"})


if __name__ == "__main__":
    unittest.main()
