"""Versions that follow a job in training: what its servers hold answers, through kills, to its end and beyond it."""

import http.client
import json
import signal
import threading
import unittest

from cluster import ENDLESS, LONG, complete, kill, merged, task_of, wait_for_death
from job_service import ServiceTest
from prediction_service import MODELS, Connection, rows_of

PREDICT = f"{MODELS}/digits:predict"
TWO = {"cluster": {"workerCount": 1, "parameterServerCount": 2}}
# Training goes on, and no value ever changes by it: whatever answers otherwise is no value of this model.
STILL = merged(TWO, {"training": {"optimizer": {"name": "sgd", "learningRate": 1e-30}}})


class Asking:
    """A thread that asks at a steady rate. Each answer is one of `right`, if that is given, or an error."""

    def __init__(self, test, right=None, pause=0.01):
        self.test, self.right, self.pause = test, right, pause
        self.body = json.dumps({"instances": test.rows[:3]})
        self.answers, self.errors, self.wrong = 0, [], []
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.ask_on)
        self.thread.start()
        test.addCleanup(self.end)

    def ask_on(self):
        connection, is_kept = Connection(self.test.address), False
        while not self.ends.wait(self.pause):
            try:
                status, _, body = connection.post(PREDICT, self.body)
                is_kept = True
            except (OSError, http.client.HTTPException) as error:
                if not is_kept:
                    self.errors.append(repr(error))
                connection, is_kept = Connection(self.test.address), False  # a kept one may end where others wait
                continue
            if status != 200:
                self.errors.append((status, body[:300]))
            elif self.right is not None and json.loads(body)["predictions"] not in self.right:
                self.wrong.append(body[:300])
            else:
                self.answers += 1
        connection.close()

    def wait_for_more(self, count=50):
        until = self.answers + count
        while self.answers < until and not (self.wrong or self.errors) and self.thread.is_alive():
            threading.Event().wait(0.01)
        self.test.assertEqual((self.wrong, self.errors), ([], []))
        self.test.assertGreaterEqual(self.answers, until, "its thread has raised")

    def end(self):
        self.ends.set()
        self.thread.join(LONG)


class LiveCase(ServiceTest):
    def setUp(self):
        super().setUp()
        self.rows, self.labels = rows_of(self.folder, 40)
        self.job_dir = self.root / "jobs/wd1"

    def start_job(self, changes):
        self.start_service()
        status, answer = self.submit("wd1", **changes)
        self.assertEqual(status, 200, answer)
        self.wait_for("wd1", "RUNNING")
        return self.wait_until(lambda status: status["state"] == "RUNNING" and not status["pending"])

    def deploy_live(self, version="now", origin="wd1", expected=None):
        self.ask("POST", MODELS, {"name": "digits"})
        body = {"name": version, "deploymentUri": f"{origin}/live"}
        status, operation = self.ask("POST", f"{MODELS}/digits/versions", body)
        self.assertEqual(status, 200, operation)
        while not operation.get("done"):
            operation = self.ask("GET", f"/v1/{operation['name']}")[1]
        if expected is None:
            self.assertNotIn("error", operation)
        else:
            self.assertIn(expected, operation["error"]["message"])

    def predict(self, version=None, count=3):
        place = "digits" + (f"/versions/{version}" if version else "")
        status, answer = self.ask("POST", f"{MODELS}/{place}:predict", {"instances": self.rows[:count]})
        self.assertEqual(status, 200, answer)
        return answer["predictions"]

    def version(self, name="now"):
        return self.ask("GET", f"{MODELS}/digits/versions/{name}")[1]

    def wait_for_version(self, condition):
        until = threading.Event()
        while not condition(self.version()):
            until.wait(0.05)
        return self.version()


class LiveTest(LiveCase):
    def test_it_answers_by_what_is_being_learned_and_says_how_fresh_that_is(self):
        self.start_job(merged(ENDLESS, TWO))
        self.deploy_live()
        first = self.predict()
        while self.predict() == first:  # it is trained
            threading.Event().wait(0.05)
        asking = Asking(self)
        asking.wait_for_more()
        version = self.version()
        self.assertGreater(version["freshness"]["ageSeconds"], 0, version)
        self.assertGreater(version["freshness"]["p99Seconds"], 0, version)
        [row] = self.ask("GET", f"{MODELS}:overview")[1]["models"][0]["versions"]
        self.assertIn("p99Seconds", row["freshness"])
        self.assertRegex(self.tool("models", "list", "--root", self.root)[1], r"digits +now +READY +yes +wd1/live  ")
        metrics = self.ask("GET", "/metrics")[1].decode()
        count = 'downpour_prediction_freshness_seconds_count{model="digits",version="now"}'
        self.assertGreater(float(next(line for line in metrics.splitlines() if line.startswith(count)).split()[-1]), 40)
        refused = self.ask("POST", "/v1/projects/p/jobs", {"jobId": "b1", "predictionInput": {
            "versionName": "projects/p/models/digits/versions/now", "dataFormat": "JSON",
            "inputPaths": ["gs://data/in"], "outputPath": "gs://data/out", "region": "global"}})  # fmt: skip
        self.assertIn("deploy the job without --live", str(refused))
        code, out, err = self.tool("predict", self.job_dir, "--live", "--instances", self.write_rows())
        self.assertEqual(code, 0, err)
        self.assertEqual(len(out.splitlines()), 3)
        self.assertEqual(err, f"predicting by {self.job_dir}\n3 rows\n", "and nothing of how it was read")

    def write_rows(self):
        file = self.folder / "rows.json"
        file.write_text("\n".join(map(json.dumps, self.rows[:3])))
        return file

    def test_kills_of_ps_and_chief_cost_no_answer(self):
        status = self.start_job(merged(merged(ENDLESS, STILL), {"checkpoint": {"every": "200ms"}}))
        self.deploy_live()
        right = self.predict()
        asking = Asking(self, [right])
        asking.wait_for_more()
        for name in ("ps-1", "chief", "ps-0", "chief"):
            before = status["chief"]["pid"] if name == "chief" else task_of(status, name)["pid"]
            kill(before)

            def is_back(now, name=name, before=before):
                pid = now["chief"]["pid"] if name == "chief" else task_of(now, name).get("pid")
                return pid != before and now["state"] == "RUNNING" and not now["pending"]

            status = self.wait_until(is_back)
            asking.wait_for_more()
            self.wait_for_version(lambda version: version["freshness"]["ageSeconds"] < 5)  # it follows again
        self.assertEqual(self.predict(), right)

    def test_its_last_checkpoint_takes_over_when_the_job_ends(self):
        for how in ("SUCCEEDED", "CANCELLED"):
            with self.subTest(how):
                self.check_end(how)
                self.ask("DELETE", f"{MODELS}/digits/versions/now")
                self.ask("DELETE", f"{MODELS}/digits")
                self.ask("DELETE", "/v1/projects/p/jobs/wd1")
                self.service.end()

    def check_end(self, how):
        endless = merged(ENDLESS, TWO)
        self.start_job(endless if how == "CANCELLED" else merged(endless, {"training": {"epochs": 100}}))
        self.deploy_live()
        asking = Asking(self)
        asking.wait_for_more(20)
        if how == "CANCELLED":
            self.ask("POST", "/v1/projects/p/jobs/wd1:cancel", {})
        self.wait_for("wd1", how)
        version = self.wait_for_version(lambda version: "freshness" not in version)
        asking.wait_for_more(20)
        asking.end()
        self.assertEqual((asking.errors, version["state"]), ([], "READY"))
        self.assertIn("/checkpoints/", version["deployedFrom"])
        last = self.predict()
        self.ask("POST", f"{MODELS}/digits/versions", {"name": "last", "deploymentUri": "wd1"})
        while self.version("last").get("state") != "READY":
            threading.Event().wait(0.05)
        self.assertEqual(self.predict("last"), last)
        kill(self.service.pid)
        self.service.end()
        self.start_service()
        self.assertEqual(self.predict(), last)
        self.ask("DELETE", f"{MODELS}/digits/versions/last")

    def test_a_service_that_is_killed_follows_again_and_takes_over_what_ended_meanwhile(self):
        self.start_job(merged(ENDLESS, STILL))
        self.deploy_live()
        right = self.predict()
        kill(self.service.pid)
        self.service.end()
        self.start_service()
        self.assertEqual(self.predict(), right)
        self.assertIn("freshness", self.version())
        kill(self.service.pid)
        self.service.end()
        self.assertEqual(self.tool("stop", "--job-dir", self.job_dir)[0], 0)
        self.start_service()
        self.assertEqual(self.predict(), right)
        self.assertIn("/checkpoints/", self.version()["deployedFrom"])

    def test_a_job_whose_chief_cannot_be_dialled_for_a_while_is_followed_again(self):
        status = self.start_job(merged(ENDLESS, STILL))
        self.deploy_live()
        right = self.predict()
        place = self.job_dir / "chief.json"
        said = place.read_text()
        kill(status["chief"]["pid"], signal.SIGSTOP)  # so that the service looks where it is
        place.write_text(json.dumps(json.loads(said) | {"endpoint": "nowhere"}))
        self.service.wait_for_line("it is dialled again")
        kill(status["chief"]["pid"], signal.SIGCONT)
        self.service.wait_for_line("is to follow its job again: its servers cannot be dialled")
        self.assertEqual(self.predict(), right, "by the last values")
        place.write_text(said)
        self.wait_for_version(lambda version: version["freshness"]["ageSeconds"] < 5)
        self.assertEqual(self.predict(), right)

    def test_a_job_that_comes_back_after_the_service_is_followed_again(self):
        """As where their machine was started again."""
        self.start_service()
        self.job_dir = self.folder / "own"
        self.write_endless_job(**STILL)
        run = self.start_run()
        status = self.wait_until(complete)
        self.deploy_live(origin=str(self.job_dir))
        right = self.predict()
        self.assertEqual(self.tool("checkpoint", "now", "--job-dir", self.job_dir)[0], 0)
        kill(self.service.pid)
        self.service.end()
        kill(run.pid)
        run.end()
        for pid in (status["chief"]["pid"], *(task["pid"] for task in status["tasks"])):
            wait_for_death(pid)
        self.start_service()
        self.start_run("--resume")
        self.assertEqual(self.predict(), right)
        self.assertIn("freshness", self.version())

    def test_what_cannot_be_followed_is_refused_by_name(self):
        self.start_service()
        self.ask("POST", MODELS, {"name": "digits"})
        self.assertEqual(self.submit("wd1")[0], 200)
        self.wait_for("wd1", "SUCCEEDED")
        self.deploy_live("over")  # its last checkpoint answers at once
        self.assertIn("/checkpoints/", self.version("over")["deployedFrom"])
        listed = self.tool("models", "list", "--root", self.root)[1]
        self.assertRegex(listed, r"digits +over +READY +yes +wd1/live, over: \d+-\d+ ")
        self.deploy_live("nobody", "wd2", expected="is no job of this service")
        self.assertNotIn("freshness", self.version("nobody"))
        empty = self.folder / "empty"
        empty.mkdir()
        self.deploy_live("empty", str(empty), expected="Deploy it once it runs, or without --live")

    def test_rows_of_tables_come_from_their_servers(self):
        users = [{"user": number, "hour": 3} for number in range(40)] + [{"user": 10**9, "hour": 4}]  # the last is new
        lines = "".join(f"{row['user']},{row['hour']},{row['user'] % 2}\n" for row in users[:-1] for _ in range(8))
        (self.folder / "train.csv").write_text("user,hour,liked\n" + lines)
        job = {
            "name": "tables",
            "cluster": {"workerCount": 1, "parameterServerCount": 2},
            "data": {"format": "csv", "train": str(self.folder / "train.csv"), "label": "liked",
                     "columns": [{"name": "user", "key": "integer"}, {"name": "hour"}]},
            "model": {
                "tables": [{"name": "users", "width": 4, "optimizer": {"name": "sgd", "learningRate": 1e-30}}],
                "tableBuckets": 8,
                "inputs": [{"name": "numbers", "columns": ["hour"]}],
                "layers": [{"name": "u", "embedding": {"table": "users", "column": "user"}},
                           {"name": "all", "from": ["u", "numbers"], "concat": {}},
                           {"name": "out", "dense": {"units": 2}}],
            },
            "training": {"batchSize": 32, "leaseBatches": 4, "epochs": 1_000_000,
                         "optimizer": {"name": "adagrad", "learningRate": 1e-30}},
            "checkpoint": {"every": "200ms"},
        }  # fmt: skip
        self.start_service()
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs", {"jobId": "wd1", "jobFile": json.dumps(job)})[0], 200)
        status = self.wait_until(lambda status: status["state"] == "RUNNING" and not status["pending"])
        self.rows = users
        self.deploy_live()
        right = self.predict(count=len(users))
        self.assertGreater(len({json.dumps(row) for row in right}), 20, "each user has a row of its own")
        asking = Asking(self, [self.predict()])
        asking.wait_for_more()
        kill(task_of(status, "ps-1")["pid"])
        asking.wait_for_more()  # those that need its rows wait for it
        self.assertEqual(self.predict(count=len(users)), right)
        self.ask("POST", "/v1/projects/p/jobs/wd1:cancel", {})
        self.wait_for_version(lambda version: "freshness" not in version)
        asking.wait_for_more(20)
        self.assertEqual(self.predict(count=len(users)), right)


if __name__ == "__main__":
    unittest.main()
