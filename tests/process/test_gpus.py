"""Workers on two GPUs that only pretend to be there: the worker's own way from the driver to the job's end."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest
import unittest.mock

import cluster
from cluster import BUILD, complete, task_of
from plain_training import PlainTrainingTest

STAND_IN = BUILD / "tests/parity/cuda_stand_in.so"
MANAGEMENT_LIBRARY = BUILD / "tests/unit/runtime/libnvml_stand_in.so"
MODULE = "downpour-cuda.so"


@unittest.skipUnless(STAND_IN.exists(), "there is no CUDA toolkit here, so nothing that stands in for a GPU")
class GpuTest(PlainTrainingTest):
    @classmethod
    def setUpClass(cls):
        """The programs as one folder, with a driver beside them, a module and a management library."""
        cls.bin = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="downpour-gpus-")))
        for program in (cluster.TOOL, *cluster.PROGRAMS.values()):
            subprocess.run(["strip", "-o", cls.bin / program.name, program], check=True)
        shutil.copy(STAND_IN, cls.bin / "libcuda.so.1")
        shutil.copy(MANAGEMENT_LIBRARY, cls.bin / "libnvidia-ml.so.1")

    def setUp(self):
        super().setUp()
        (self.bin / MODULE).unlink(missing_ok=True)
        shutil.copy(STAND_IN, self.bin / MODULE)
        self.lost = self.folder / "lost"
        here = {"LD_LIBRARY_PATH": str(self.bin), "DOWNPOUR_STAND_IN_LOST": str(self.lost)}
        for patched in (
            unittest.mock.patch.dict(os.environ, here),
            unittest.mock.patch.dict(cluster.PROGRAMS, worker=self.bin / "downpour-worker"),
        ):
            patched.start()
            self.addCleanup(patched.stop)

    def start_run(self, *words):
        return super().start_run(*words, tool=self.bin / "downpour")

    def cancel(self, run):
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        return self.check_cancelled()

    def test_a_job_on_gpus_from_start_to_end(self):
        self.assertLess(self.distance(precision="bf16", wire="bf16"), 0.05)
        said = self.tool("logs", "--job-dir", self.job_dir)[1]
        self.assertRegex(said, r"computes on cuda:[01] \(stand-in.*\): 2 GPUs answer, taken in turn by --index")
        computes = "computes matrix products and what layers hand on in bf16, all else in fp32"
        self.assertIn(f"{computes}; pushes and pulls in bf16", said)

    def test_more_workers_than_gpus_share_them_in_turn(self):
        self.write_endless_job(cluster={"workerCount": 3})
        run = self.start_run()
        known = lambda s: complete(s) and all(task_of(s, f"worker-{i}").get("gpu") for i in range(3))
        status = self.wait_until(known)
        gpus = [task_of(status, f"worker-{i}")["gpu"] for i in range(3)]
        self.assertEqual([gpu["workers"] for gpu in gpus], [2, 1, 2])
        self.assertEqual([gpu["address"] for gpu in gpus], ["0000:00:01.0", "0000:00:02.0", "0000:00:01.0"])
        self.assertIn("cuda:1", task_of(status, "worker-1")["device"])
        table = self.tool("status", "--job-dir", self.job_dir)[1]
        self.assertRegex(table, r"worker-2: Stand-in 80GB, .* 20.0 GiB of 80.0 GiB, 61 °C, shared by 2 workers\n")
        self.assertRegex(table, r"worker-1: Stand-in 80GB, 20.0 GiB of 80.0 GiB, 61 °C\n")
        self.cancel(run)

    def test_a_lost_gpu_ends_its_worker_alone(self):
        self.write_endless_job()
        self.lost.touch()  # the first worker that finds it loses its GPU
        run = self.start_run()
        ended = run.wait_for_line(r"(worker-\d) \(pid \d+\) ended: exit code 1; started again as pid (\d+)")
        survivor = {"worker-0": "worker-1", "worker-1": "worker-0"}[ended[1]]
        replaced = lambda s: complete(s) and task_of(s, ended[1])["pid"] == int(ended[2])
        committed = self.wait_until(replaced)["progress"]["leasesCommitted"]
        status = self.wait_until(lambda s: replaced(s) and s["progress"]["leasesCommitted"] > committed + 20)
        self.assertEqual(task_of(status, survivor)["attempt"], 0)
        self.assertEqual(task_of(status, ended[1])["pid"], int(ended[2]))
        said = self.tool("logs", ended[1], "--job-dir", self.job_dir)[1]
        self.assertRegex(said, r"the device failed: .*OfStandIn .*from \w+\(.*tensor/cuda_\w+\.(cc|h):\d+")
        self.assertGreater(self.cancel(run)["leasesHandedOn"], 0)

    def test_what_cannot_be_had_is_said_in_one_line(self):
        worker = lambda device: self.start("worker", "--chief=127.0.0.1:1", f"--device={device}")
        refused = worker("cuda:7")
        self.assertNotEqual(refused.finish()[0], 0)
        self.assertIn("--device: there is no cuda:7: the last that answers is cuda:1", refused.said)
        refused = worker("gpu")
        self.assertNotEqual(refused.finish()[0], 0)
        self.assertIn('"gpu" is no device: auto, cpu or cuda:N, such as cuda:0', refused.said)
        worker("auto").wait_for_line(r"computes on cuda:0 .*: 2 GPUs answer, the first, "
                                     "since no --index says whose turn it is")  # fmt: skip
        (self.bin / "no-module").write_text("no module")
        (self.bin / "no-module").rename(self.bin / MODULE)  # beside: a worker still runs on the one that was there
        refused = worker("cuda:0")
        self.assertNotEqual(refused.finish()[0], 0)
        self.assertRegex(refused.said, f"--device: {MODULE} cannot be loaded: .*")
        worker("auto").wait_for_line(rf"computes on cpu \(.*\): a GPU answers, but {MODULE} cannot be loaded: ")
        worker("cpu").wait_for_line(r"computes on cpu \(.*\): asked for")


if __name__ == "__main__":
    unittest.main()
