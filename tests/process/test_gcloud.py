"""gcloud drives the job service: the client of AI Platform, which nobody here wrote."""

import importlib.util
import json
import shutil
import subprocess
import textwrap
import unittest

import slurm_cluster
import ssh_hosts
from cluster import LONG, ROOT
from gcloud_client import GCLOUD, environment_of
from job_service import ServiceTest

HAS_TORCH = importlib.util.find_spec("torch") is not None
TASK = """
    import argparse
    import torch
    import downpour

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--job-dir", required=True)
    parser.add_argument("--rate", type=float, default=0.05)
    options = parser.parse_args()
    print("writes into", options.job_dir)
    torch.manual_seed(7)
    patterns = torch.randn(10, 20)

    def draw(count, seed):
        generator = torch.Generator().manual_seed(seed)
        labels = torch.randint(10, (count,), generator=generator)
        return torch.utils.data.TensorDataset(patterns[labels] + torch.randn(count, 20, generator=generator), labels)

    model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    downpour.fit(model, train=draw(1000, 1), eval=draw(200, 2), loss=torch.nn.functional.cross_entropy,
                 epochs=options.epochs, batch_size=16, optimizer=torch.optim.SGD(model.parameters(), lr=options.rate))
"""


class GcloudCase(ServiceTest):
    """A service with a package of torch beside it, and gcloud to submit it."""

    def setUp(self):
        super().setUp()
        package = self.folder / "trainer"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "task.py").write_text(textwrap.dedent(TASK))
        self.environment = environment_of(self.folder, self.address)

    def jobs(self, words, expected=0):
        """What `gcloud ai-platform jobs WORDS` says on stdout and stderr."""
        command = [GCLOUD, "ai-platform", "jobs", *words.split()]
        done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True,
                              timeout=LONG)  # fmt: skip
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def submit_package(self, name, epochs, size="--scale-tier STANDARD_1"):
        return self.jobs(
            f"submit training {name} --package-path trainer/ --module-name trainer.task --region us-central1"
            f" --python-version 3.7 --runtime-version 2.1 --job-dir gs://models/{name} --staging-bucket gs://models"
            f" {size} -- --epochs {epochs}"
        )


class Elsewhere:
    """The same commands against another backend."""

    def test_submit_list_describe_stream_logs_and_cancel(self):
        self.assertIn("submitted successfully", self.submit_package("wd1", 2, "--scale-tier BASIC"))
        self.wait_for("wd1", "SUCCEEDED")
        self.assertRegex(self.jobs("list"), r"wd1 +SUCCEEDED")
        self.assertIn("state: SUCCEEDED", self.jobs("describe wd1"))
        logs = self.jobs("stream-logs wd1 --polling-interval 1")
        self.assertRegex(logs, r"WARNING.*service.*region has no meaning here")
        for task in ("master-replica-0", "worker-replica-0", "ps-replica-0"):
            self.assertIn(task, logs)
        self.submit_package("long", 1_000_000, "--scale-tier BASIC")
        self.wait_for("long", "RUNNING")
        self.jobs("cancel long")
        self.assertIn("request", self.wait_for("long", "CANCELLED")["errorMessage"])


@unittest.skipUnless(GCLOUD, "there is no gcloud here")
@unittest.skipUnless(HAS_TORCH, "there is no torch for this Python")
@unittest.skipIf(slurm_cluster.MISSING, f"there is no {', '.join(slurm_cluster.MISSING)} here")
class GcloudSlurmTest(Elsewhere, GcloudCase):
    def setUp(self):
        super().setUp()
        slurm_cluster.SlurmCluster(self, self.folder / "slurm", cores=8)
        self.start_service("--backend", "slurm")

    def end_runs(self):
        """The cluster does."""


@unittest.skipUnless(GCLOUD, "there is no gcloud here")
@unittest.skipUnless(HAS_TORCH, "there is no torch for this Python")
@unittest.skipUnless(ssh_hosts.SSHD and shutil.which("ssh"), "sshd or ssh is not there")
class GcloudSshTest(Elsewhere, ssh_hosts.SshHostsTest, GcloudCase):
    def setUp(self):
        super().setUp()
        self.start_service("--backend", "ssh", "--hosts", self.hosts, "--ssh-config", self.folder / "ssh_config",
                           "--chief-port", self.port, "--launcher", ROOT / "deploy/cluster",
                           tool=f"{self.install}/downpour")  # fmt: skip

    def tasks(self):
        return self.pids("h*/*/pids/*")


@unittest.skipUnless(GCLOUD, "there is no gcloud here")
@unittest.skipUnless(HAS_TORCH, "there is no torch for this Python")
class GcloudTest(GcloudCase):
    def setUp(self):
        super().setUp()
        self.start_service()

    def test_a_package_of_torch_runs_to_its_end(self):
        self.assertIn("submitted successfully", self.submit_package("wd1", 2))
        self.wait_for("wd1", "SUCCEEDED")
        self.assertRegex(self.jobs("list"), r"wd1 +SUCCEEDED")
        described = self.jobs("describe wd1")
        self.assertIn("state: SUCCEEDED", described)
        self.assertIn("jobDir: gs://models/wd1", described)
        logs = self.jobs("stream-logs wd1 --polling-interval 1")
        self.assertRegex(logs, r"WARNING.*service.*region has no meaning here")
        self.assertRegex(logs, r"service.*writes into .*/storage/models/wd1")
        for task in ("master-replica-0", "worker-replica-4", "ps-replica-2"):
            self.assertIn(task, logs)
        self.jobs("update wd1 --update-labels team=a,stage=test")
        self.jobs("update wd1 --remove-labels stage")
        self.assertEqual(self.job_of("wd1")["labels"], {"team": "a"})
        self.assertIn("choose another name", self.refused_submit("wd1"))

    def refused_submit(self, name):
        words = f"submit training {name} --package-path trainer/ --module-name trainer.task --region us-central1"
        return self.jobs(f"{words} --staging-bucket gs://models", expected=1)

    def test_a_search_finds_the_best_rate(self):
        (self.folder / "search.yaml").write_text(textwrap.dedent("""
            trainingInput:
              hyperparameters:
                goal: MAXIMIZE
                hyperparameterMetricTag: accuracy
                algorithm: GRID_SEARCH
                maxTrials: 2
                params:
                - parameterName: rate
                  type: DISCRETE
                  discreteValues: [0.0000001, 0.05]
        """))
        words = "submit training tuned --package-path trainer/ --module-name trainer.task --region us-central1"
        self.jobs(f"{words} --job-dir gs://models/tuned --staging-bucket gs://models --config search.yaml"
                  " -- --epochs 2")  # fmt: skip
        self.wait_for("tuned", "SUCCEEDED")
        described = self.jobs("describe tuned")
        self.assertIn("isHyperparameterTuningJob: true", described)
        self.assertIn("completedTrialCount: '2'", described)
        self.assertLess(described.index("rate: '0.05'"), described.index("rate: '1e-07'"), described)
        logs = self.jobs("stream-logs tuned --polling-interval 1")
        self.assertRegex(logs, r"service.*the best trial is 2: accuracy .* by rate=0.05, in .*/jobs/tuned/trials/2")
        self.assertRegex(logs, r"service.*writes into .*/storage/models/tuned/1")

    def settings_of(self, name):
        """What the job came to."""
        return json.loads((self.root / f"jobs/{name}/python/job.json").read_text())

    def test_a_package_has_the_settings_of_a_job_file_from_the_section_downpour(self):
        (self.folder / "config.yaml").write_text(textwrap.dedent("""
            downpour:
              training: {consistency: sync, optimizer: {schedule: {name: cosine}}}
              checkpoint.every: 1m
        """))
        words = "--package-path trainer/ --module-name trainer.task --region us-central1 --staging-bucket gs://models"
        self.jobs(f"submit training set {words} --job-dir gs://models/set --config config.yaml -- --epochs 2")
        self.wait_for("set", "SUCCEEDED")
        job = self.settings_of("set")
        self.assertEqual((job["training"]["consistency"], job["training"]["epochs"]), ("sync", 2))
        self.assertEqual(job["training"]["optimizer"]["schedule"]["name"], "cosine")
        self.assertEqual((job["checkpoint"]["every"], job["training"]["optimizer"]["learningRate"]), ("60s", 0.05))
        self.assertIn("consistency: sync", self.jobs("describe set"))
        (self.folder / "config.yaml").write_text("downpour: {training: {epoch: 3}}")
        said = self.jobs(f"submit training slip {words} --config config.yaml", expected=1)
        self.assertIn("downpour: training.epoch: unknown key; did you mean epochs?", said)

    def test_our_own_verb_has_a_job_file_and_settings_beside_the_package(self):
        (self.folder / "settings.yaml").write_text(
            "name: own\ncluster: {workerCount: 2, parameterServerCount: 1}\n"
            "training: {consistency: ssp, sspBound: 3, batchSize: 20}\n")  # fmt: skip
        where = ["--root", self.root, "--job-dir", "gs://models/own", "--package-path", self.folder / "trainer"]
        words = ["jobs", "submit", "own", *where, "--module-name", "trainer.task", "--file",
                 self.folder / "settings.yaml", "--set", "training.sspBound=5", "--", "--epochs", "2"]  # fmt: skip
        code, _, err = self.tool(*words)
        self.assertEqual(code, 0, err)
        self.wait_for("own", "SUCCEEDED")
        job = self.settings_of("own")
        self.assertEqual((job["training"]["batchSize"], job["training"]["sspBound"], job["training"]["epochs"]),
                         (20, 5, 2), "--set, over the file, over the program's own 16")  # fmt: skip
        self.assertEqual((job["cluster"]["workerCount"], job["cluster"]["parameterServerCount"]), (2, 1))

    def test_our_own_verb_submits_the_package_as_well(self):
        where = ["--root", self.root, "--job-dir", "gs://models/own", "--package-path", self.folder / "trainer"]
        words = ["jobs", "submit", "own", *where, "--module-name", "trainer.task", "--", "--epochs", "2"]
        code, _, err = self.tool(*words)
        self.assertEqual(code, 0, err)
        self.wait_for("own", "SUCCEEDED")

    def test_a_job_is_cancelled(self):
        self.submit_package("long", 1_000_000)
        self.wait_for("long", "RUNNING")
        self.jobs("cancel long")
        self.assertIn("request", self.wait_for("long", "CANCELLED")["errorMessage"])
        self.assertIn("it is CANCELLED", self.jobs("cancel long", expected=1))
        self.assertIn("there is no job none", self.jobs("describe none", expected=1))


if __name__ == "__main__":
    unittest.main()
