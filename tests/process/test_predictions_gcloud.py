"""gcloud deploys models and asks them: the client of AI Platform, which nobody here wrote."""

import json
import re
import shutil
import subprocess
import unittest

from cluster import LONG
from gcloud_client import GCLOUD, environment_of
from prediction_service import PredictionCase


@unittest.skipUnless(GCLOUD, "there is no gcloud here")
class GcloudPredictionsTest(PredictionCase):
    def setUp(self):
        super().setUp()
        self.start_service()
        self.environment = environment_of(self.folder, self.address)
        shutil.copytree(self.trained / "first", self.root / "storage/models/wd1")
        shutil.copytree(self.trained / "second", self.root / "storage/models/wd2")
        (self.folder / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in self.rows))

    def gcloud(self, words, expected=0):
        """What `gcloud ai-platform WORDS` says on stdout, and on stderr."""
        done = subprocess.run([GCLOUD, "ai-platform", *words.split()], env=self.environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=LONG)  # fmt: skip
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done.stdout if expected == 0 else done.stdout + done.stderr

    def test_models_and_versions_live_as_the_old_service_had_them(self):
        self.gcloud("models create m --regions us-central1 --labels team=a --description trained")
        self.gcloud("versions create v1 --model m --origin gs://models/wd1 --region global")
        answer = self.gcloud("predict --model m --region global --json-instances rows.json")
        self.assertRegex(answer.splitlines()[0], r"CLASS +PROBABILITIES")
        classes = [int(line.split()[0]) for line in answer.splitlines()[1:]]
        self.assertGreater(sum(a == b for a, b in zip(classes, self.labels)), len(self.labels) * 0.7)
        self.gcloud("versions create v2 --model m --origin gs://models/wd2/latest --region global --description other"
                    " --labels kind=b --runtime-version 2.1 --python-version 3.7")  # fmt: skip
        by_version = [self.gcloud(f"predict --model m --version {v} --region global --json-instances rows.json"
                                  " --format json") for v in ("v1", "v2")]  # fmt: skip
        self.assertNotEqual(*by_version)
        (self.folder / "request.json").write_text(json.dumps({"instances": self.rows}))
        usual = self.gcloud("predict --model m --region global --json-request request.json --format json")
        self.assertEqual(json.loads(usual), json.loads(by_version[0]))

        self.assertRegex(self.gcloud("models list --region global"), r"m +v1")
        self.assertRegex(self.gcloud("versions list --model m --region global"), r"v2 +gs://models/wd2/latest +READY")
        described = self.gcloud("versions describe v2 --model m --region global")
        for line in ("description: other", "kind: b", "state: READY", "runtimeVersion: '2.1'"):
            self.assertIn(line, described)
        self.assertRegex(self.gcloud("models describe m --region global"), r"description: trained(.|\n)*team: a")
        self.gcloud("versions set-default v2 --model m --region global")
        usual = self.gcloud("predict --model m --region global --json-instances rows.json --format json")
        self.assertEqual(json.loads(usual), json.loads(by_version[1]))
        self.gcloud("models update m --region global --update-labels team=b --description new")
        self.gcloud("versions update v1 --model m --region global --update-labels kind=c")
        self.assertRegex(self.gcloud("models describe m --region global"), r"description: new(.|\n)*team: b")
        operations = self.gcloud("operations list --format json")
        self.assertIn("CREATE_VERSION", operations)
        name = json.loads(operations)[0]["name"].rsplit("/", 1)[1]
        self.assertIn("done: true", self.gcloud(f"operations describe {name}"))

        self.assertIn("make another one the default", self.gcloud("versions delete v2 --model m --region global", 1))
        self.assertIn("delete its versions first", self.gcloud("models delete m --region global", 1))
        for version in ("v1", "v2"):
            self.gcloud(f"versions delete {version} --model m --region global")
        self.gcloud("models delete m --region global")
        self.assertEqual(self.gcloud("models list --region global"), "")

    def test_a_batch_of_files_is_a_job(self):
        self.gcloud("models create m --regions us-central1")
        self.gcloud("versions create v1 --model m --origin gs://models/wd1 --region global")
        (self.root / "storage/data/in").mkdir(parents=True)
        lines = (self.folder / "rows.json").read_text().splitlines(keepends=True)
        (self.root / "storage/data/in/a.json").write_text("".join(lines[:30]))
        (self.root / "storage/data/in/b.json").write_text("".join(lines[30:]) + "[1]\n")
        self.gcloud("jobs submit prediction batch --model m --data-format text --input-paths gs://data/in/*.json"
                    " --output-path gs://data/out --region us-central1")  # fmt: skip
        self.wait_for("batch", "SUCCEEDED")
        out = self.root / "storage/data/out"
        results = [(out / f"prediction.results-0000{i}-of-00002").read_text().splitlines() for i in (0, 1)]
        self.assertEqual([json.loads(line) for part in results for line in part], self.predictions("m"))
        errors = (out / "prediction.errors_stats-00000-of-00001").read_text().splitlines()
        self.assertEqual([(json.loads(line)["file"], json.loads(line)["line"]) for line in errors], [("b.json", 11)])
        described = self.gcloud("jobs describe batch")
        for line in ("predictionCount: '40'", "errorCount: '1'", "outputPath: gs://data/out",
                     "modelName: projects/p/models/m"):  # fmt: skip
            self.assertIn(line, described)
        self.assertRegex(self.gcloud("jobs list"), r"batch +SUCCEEDED")
        said = self.gcloud("jobs submit prediction none --model m --data-format text --input-paths gs://data/none"
                           " --output-path gs://data/out --region us-central1", 1)  # fmt: skip
        self.assertIn("there is no file gs://data/none", said)

    def test_what_is_refused_says_why(self):
        self.gcloud("models create m --regions us-central1")
        said = self.gcloud("models create m --regions us-central1", 1)
        self.assertIn("choose another name", said)
        create = "versions create v1 --model m --region global --origin"
        self.assertIn("there is nothing at the origin", self.gcloud(f"{create} gs://models/none", 1))
        self.gcloud("versions delete v1 --model m --region global")
        for words, why in (("--framework xgboost", "framework: models are Downpour's own"),
                           ("--accelerator count=1,type=nvidia-tesla-k80 --machine-type n1-standard-4",
                            "acceleratorConfig: accelerators do not compute predictions here")):  # fmt: skip
            self.assertIn(why, self.gcloud(f"{create} gs://models/wd1 {words}", 1))
        self.gcloud(f"{create} gs://models/wd1")
        (self.folder / "bad.json").write_text("[1, 2]\n")
        said = self.gcloud("predict --model m --region global --json-instances bad.json", 1)
        self.assertTrue(re.search("row 0", said), said)


if __name__ == "__main__":
    unittest.main()
