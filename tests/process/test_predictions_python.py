"""Models of Python code answer: through the service, by a folder, after crashes, hangs and kills."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest

from cluster import LONG, TOOL, kill, wait_for_death
from job_service import ServiceTest
from own_code import HAS_TORCH
from prediction_service import MODELS, Connection

# By rows of a table, and by a function of its own that does what an instance says.
RATINGS = """
import os, pathlib, signal
import torch
import downpour

class Ratings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.users = downpour.Embedding(4)
        self.head = torch.nn.Linear(6, 1)

    def forward(self, user, x):
        return self.head(torch.cat([self.users(user), x], 1))[:, 0]

torch.manual_seed(1)
model = Ratings()

def do_as_told(what, count):
    if what == "raise":
        raise ValueError("no luck")
    if what == "exit before a bad start":
        no_start.write_text("once")
    if what in ("exit", "exit before a bad start"):
        os._exit(3)
    if what == "hang":
        print("it hangs", flush=True)
        signal.pause()
    if what == "print":
        print("it was said")
    return {"short": [1] * (count - 1), "nan": [float("nan")] * count, "object": [object()] * count,
            "long": ["x" * (9 << 20)] * count}.get(what)

def predict(instances):
    told = do_as_told(instances[0].get("do"), len(instances))
    if told is not None:
        return told
    user, x = (torch.tensor([row[name] for row in instances]) for name in ("user", "x"))
    return {"rating": model(user, x), "pid": [os.getpid()] * len(instances)}

print("it starts")
no_start = pathlib.Path("/tmp", os.environ.get("NO_START", "no such file"))
how = no_start.read_text() if no_start.exists() else None
if how == "hang":
    signal.pause()
if how == "once":
    no_start.unlink()
if how is not None:
    raise RuntimeError("it does not start")
downpour.serve(model, predict, example={"user": 1, "x": [0.0, 0.0]})
print("it goes on where it trains")
user, x = torch.arange(400) % 10, torch.randn(400, 2)
downpour.fit(model, train=(user, x, user * 0.1 + x.sum(1)), loss=torch.nn.functional.mse_loss, epochs=3, batch_size=16,
             optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
"""
# It says nothing of predictions.
PLAIN = """
import torch
import downpour

torch.manual_seed(1)
x = torch.randn(400, 2, 3)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(6, 2))
downpour.fit(model, train=(x, (x.sum((1, 2)) > 0).long()), loss=torch.nn.functional.cross_entropy, epochs=3,
             batch_size=16)
"""
# What a job's values make of rows, by NumPy.
RATE = """
import json, sys
import downpour
job = downpour.Job(sys.argv[1])
values = job.state_dict()
ids, rows = job.table("users")
rows = dict(zip(ids.tolist(), rows))
def rate(row):
    inputs = [*rows[row["user"]], *row["x"]]
    return float(sum(w * v for w, v in zip(values["head.weight"][0], inputs)) + values["head.bias"][0])
print(json.dumps([rate(json.loads(line)) for line in open(sys.argv[2])]))
"""
ROWS = [{"user": user, "x": [0.5, -1.0 + user]} for user in range(10)]


@unittest.skipUnless(HAS_TORCH, "there is no torch for this Python")
class PythonPredictionsTest(ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trained = tempfile.TemporaryDirectory(prefix="downpour-own-")
        cls.addClassCleanup(trained.cleanup)
        cls.trained = pathlib.Path(trained.name)
        job = cls.trained / "job.json"
        job.write_text(json.dumps({"name": "own", "cluster": {"workerCount": 1, "parameterServerCount": 1}}))
        for name, text in (("ratings", RATINGS), ("plain", PLAIN)):
            package = cls.trained / "code" / name / "trainer"
            package.mkdir(parents=True)
            (package / "__init__.py").write_text("")
            (package / "task.py").write_text(text)
            command = [TOOL, "run", job, "--job-dir", cls.trained / name, "--package-path", package, "--module-name",
                       "trainer.task"]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
            assert done.returncode == 0, done.stderr
        lines = cls.trained / "rows.json"
        lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        done = subprocess.run([os.environ["DOWNPOUR_PYTHON"], "-c", RATE, cls.trained / "ratings", lines],
                              capture_output=True, text=True, timeout=LONG,
                              env=os.environ | {"DOWNPOUR_TOOL": str(TOOL)})  # fmt: skip
        assert done.returncode == 0, done.stderr
        cls.right = json.loads(done.stdout)

    def deploy(self, model, origin, expected=None, version="v1"):
        self.ask("POST", MODELS, {"name": model})
        body = {"name": version, "deploymentUri": str(origin)}
        status, operation = self.ask("POST", f"{MODELS}/{model}/versions", body)
        self.assertEqual(status, 200, operation)
        while not operation.get("done"):
            operation = self.ask("GET", f"/v1/{operation['name']}")[1]
        self.assertEqual("error" in operation, expected is not None, operation)
        if expected is not None:
            self.assertIn(expected, operation["error"]["message"])

    def predict(self, instances, model="own"):
        return self.ask("POST", f"{MODELS}/{model}:predict", {"instances": instances})

    def check_right(self, rows=ROWS):
        """Returns the processes that answered."""
        status, answer = self.predict(rows)
        self.assertEqual(status, 200, answer)
        for row, prediction in zip(rows, answer["predictions"]):
            self.assertAlmostEqual(prediction["rating"], self.right[row["user"]], 5)
        return {prediction["pid"] for prediction in answer["predictions"]}

    def log(self):
        return (self.root / "models/own/v1/python.log").read_text()

    def check_error(self, instances, code, *words):
        status, answer = self.predict(instances)
        self.assertEqual(status, code, answer)
        for word in words:
            self.assertIn(word, answer["error"]["message"])

    def test_it_answers_with_the_values_and_rows_of_its_checkpoint_in_each_form(self):
        self.start_service()
        self.deploy("own", self.trained / "ratings")
        self.check_right()
        self.assertIn("goes on", (self.trained / "ratings/logs/worker-0.log").read_text())
        self.assertNotIn("goes on", self.log(), "it trains nothing where it answers")
        columns = {"inputs": {name: [row[name] for row in ROWS] for name in ("user", "x")}}
        status, answer = self.ask("POST", "/v1/models/own:predict", columns)
        self.assertEqual(status, 200, answer)
        for rating, right in zip(answer["outputs"]["rating"], self.right):
            self.assertAlmostEqual(rating, right, 5)
        tensors = [{"name": "user", "shape": [10], "datatype": "INT64", "data": [row["user"] for row in ROWS]},
                   {"name": "x", "shape": [10, 2], "datatype": "FP32", "data": [row["x"] for row in ROWS]}]
        status, answer = self.ask("POST", "/v2/models/own/infer", {"inputs": tensors, "outputs": [{"name": "rating"}]})
        self.assertEqual(status, 200, answer)
        (rating,) = answer["outputs"]
        self.assertEqual((rating["name"], rating["datatype"], rating["shape"]), ("rating", "FP32", [10, 1]))
        for found, right in zip(rating["data"], self.right):
            self.assertAlmostEqual(found, right, 5)
        overview = self.ask("GET", "/v1/projects/p/models:overview")[1]["models"][0]["versions"][0]
        self.assertEqual((overview["requests"], overview["rows"]), (3, 30), overview)
        wrong = {"inputs": tensors, "outputs": [{"name": "ratings"}]}
        self.assertEqual(self.ask("POST", "/v2/models/own/infer", wrong)[0], 400)

    def test_a_program_that_says_nothing_of_predictions_answers_where_it_comes_to_fit(self):
        self.start_service()
        self.deploy("plain", self.trained / "plain")
        rows = [[[1.0, 2, 3], [4, 5, 6]], [[0, 0, 0], [0, 0, 0]]]
        status, answer = self.predict(rows, "plain")
        self.assertEqual((status, len(answer["predictions"][0])), (200, 2), answer)
        self.assertEqual(self.predict(rows, "plain")[1], answer, "no dropout")
        tensor = {"name": "input", "shape": [2, 2, 3], "datatype": "FP32", "data": rows}
        status, infer = self.ask("POST", "/v2/models/plain/infer", {"inputs": [tensor]})
        self.assertEqual(status, 200, infer)
        flat = [number for row in answer["predictions"] for number in row]
        self.assertEqual(len(infer["outputs"][0]["data"]), 4)
        for found, right in zip(infer["outputs"][0]["data"], flat):
            self.assertAlmostEqual(found, right, 6)
        for wrong, words in (([[1, 2], [3]], "row 1"), (["a"], "row 0"), ([{"x": 1}], "no input 'x'")):
            status, answer = self.predict(wrong, "plain")
            self.assertEqual((status, words in answer["error"]["message"]), (400, True), answer)

    def test_what_the_code_does_wrong_costs_its_own_request_and_is_named(self):
        self.start_service()
        self.deploy("own", self.trained / "ratings")
        (before,) = self.check_right()
        told = lambda what: [{"do": what}, {}]  # noqa: E731
        self.check_error(told("raise"), 500, "ValueError: no luck", "at trainer/task.py:2", "in do_as_told")
        self.assertIn("Traceback", self.log())
        self.check_error(told("short"), 500, "1 predictions for 2 instances")
        self.check_error(told("nan"), 500, "row 0", "nan")
        self.check_error(told("object"), 500, "an object, which JSON has not")
        self.check_error(told("long"), 400, "an answer at most", "send fewer rows")
        self.check_error([{"user": 1.5, "x": [0, 0]}], 500, "table users are of float32")
        self.check_error([{"x": [0, 0]}], 500, "KeyError: 'user'")
        self.assertEqual(self.check_right(), {before}, "its process lives on")
        self.predict(told("print"))
        self.assertIn("it was said", self.log())
        self.check_error(told("exit"), 500, "the Python process ended")
        self.assertNotEqual(self.check_right(), {before}, "it was started again")

    def test_a_process_that_is_killed_is_started_again_and_no_request_is_lost(self):
        self.start_service()
        self.deploy("own", self.trained / "ratings")
        (pid,) = self.check_right()
        for _ in range(3):
            os.kill(pid, signal.SIGKILL)
            wait_for_death(pid)
            (after,) = self.check_right()
            self.assertNotEqual(after, pid)
            pid = after

    def test_a_hang_is_one_sentence_with_its_line_and_holds_up_no_other_model(self):
        self.start_service("--prediction-seconds", "3")
        self.deploy("own", self.trained / "ratings")
        self.deploy("plain", self.trained / "plain")
        answers = []
        hangs = threading.Thread(target=lambda: answers.append(self.predict([{"do": "hang"}])))
        hangs.start()
        for _ in range(5):
            self.assertEqual(self.predict([[[1, 2, 3], [4, 5, 6]]], "plain")[0], 200)
        hangs.join(LONG)
        ((status, answer),) = answers
        self.assertEqual(status, 504, answer)
        self.assertRegex(answer["error"]["message"], r"trainer/task\.py:2.*a request may take 3 s")
        self.check_right()

    def test_its_processes_end_with_a_service_that_is_killed_and_the_next_one_answers(self):
        self.start_service()
        self.deploy("own", self.trained / "ratings")
        (pid,) = self.check_right()
        kill(self.service.pid)
        self.service.end()
        wait_for_death(pid)
        self.start_service()
        self.assertNotEqual(self.check_right(), {pid})

    def test_a_hang_does_not_hold_up_the_end_of_the_service(self):
        self.start_service("--prediction-seconds", "3600")
        self.deploy("own", self.trained / "ratings")
        answers = []
        hangs = threading.Thread(target=lambda: answers.append(self.predict([{"do": "hang"}])))
        hangs.start()
        while "it hangs" not in self.log():
            threading.Event().wait(0.01)
        self.service.signal(signal.SIGTERM)
        self.assertEqual(self.service.finish()[0], 143, self.service.said)
        hangs.join(LONG)
        ((status, answer),) = answers
        self.assertEqual(status, 503, answer)

    def start_with(self, how):
        """A service of whose models the code starts as `how` says, until that file is gone."""
        if not hasattr(self, "no_start"):
            folder = tempfile.TemporaryDirectory(dir="/tmp", prefix="downpour-no-start-")
            self.addCleanup(folder.cleanup)
            self.no_start = pathlib.Path(folder.name, "how")
        if how is not None:
            self.no_start.write_text(how)
        self.start_service(around=lambda command: ["env", f"NO_START={self.no_start}", *command])

    def test_a_start_that_hangs_holds_up_no_other_model_and_not_the_end_of_the_service(self):
        self.start_with("hang")
        self.ask("POST", MODELS, {"name": "own"})
        body = {"name": "v1", "deploymentUri": str(self.trained / "ratings")}
        operation = self.ask("POST", f"{MODELS}/own/versions", body)[1]
        self.deploy("plain", self.trained / "plain")
        self.ask("POST", f"{MODELS}/own/versions", body | {"name": "v2"})
        for version in ("v1", "v2"):
            log = self.root / "models/own" / version / "python.log"
            while not (log.exists() and "it starts" in log.read_text()):
                threading.Event().wait(0.01)
        for place in ("own", "own/versions/v1"):  # who asks by then is told to ask again
            connection = Connection(self.address)
            status, headers, answer = connection.post(f"{MODELS}/{place}:predict", json.dumps({"instances": ROWS}))
            self.assertEqual((status, headers["Retry-After"]), (503, "1"), answer)
            self.assertIn(b"is being deployed: ask again", answer)
            connection.close()
        self.assertEqual(self.ask("DELETE", f"{MODELS}/own/versions/v2")[0], 200, "nor the name")
        self.assertEqual(self.ask("GET", f"{MODELS}/own/versions/v2")[0], 404)
        self.service.signal(signal.SIGTERM)
        self.assertEqual(self.service.finish()[0], 143, self.service.said)
        self.no_start.unlink()
        self.start_with(None)
        while not operation.get("done"):
            operation = self.ask("GET", f"/v1/{operation['name']}")[1]
        self.assertNotIn("error", operation, "it was not failed by the end of the service")
        self.check_right()
        self.service.signal(signal.SIGTERM)
        self.assertEqual(self.service.finish()[0], 143, self.service.said)
        before = self.log().count("it starts")
        self.start_with("hang")  # now of a version that is ready, and asked for
        ask = ("POST", f"{MODELS}/own:predict", {"instances": ROWS})
        asks = threading.Thread(target=self.asked_for_the_last_time, args=ask)
        asks.start()
        while self.log().count("it starts") == before:
            threading.Event().wait(0.01)
        self.assertEqual(self.predict([[[1, 2, 3], [4, 5, 6]]], "plain")[0], 200)
        self.service.signal(signal.SIGTERM)
        self.assertEqual(self.service.finish()[0], 143, self.service.said)
        asks.join(LONG)

    def test_a_version_that_cannot_start_again_is_not_started_at_each_request(self):
        self.start_with(None)
        self.deploy("own", self.trained / "ratings")
        self.service.signal(signal.SIGTERM)
        self.assertEqual(self.service.finish()[0], 143, self.service.said)
        self.start_with("never")
        before = self.log().count("it starts")
        requests = 20
        for _ in range(requests):
            self.check_error(ROWS, 409, "RuntimeError: it does not start")
        self.assertLess(self.log().count("it starts") - before, requests / 2)
        self.no_start.unlink()
        while self.predict(ROWS)[0] != 200:
            threading.Event().wait(0.1)
        self.check_right()

    def test_code_that_cannot_start_leaves_the_version_failed_with_its_words(self):
        self.start_with("never")
        self.deploy("own", self.trained / "ratings", "RuntimeError: it does not start, at trainer/task.py:")
        version = self.ask("GET", f"{MODELS}/own/versions/v1")[1]
        self.assertEqual(version["state"], "FAILED")
        lost = self.folder / "lost"
        subprocess.run(["cp", "-r", self.trained / "ratings", lost], check=True)
        (lost / "python/code.tar.gz").unlink()
        self.deploy("own", lost, "code.tar.gz is not there", "v2")
        (lost / "python/code.tar.gz").write_bytes(b"other")
        self.deploy("own", lost, "is not the code that the job names", "v3")

    def test_the_tool_answers_by_the_jobs_folder(self):
        for words in (["--instances"], ["--input"]):
            done = self.tool("predict", self.trained / "ratings", *words, self.trained / "rows.json")
            self.assertEqual(done[0], 0, done)
            for line, right in zip(done[1].splitlines(), self.right):
                self.assertAlmostEqual(json.loads(line)["rating"], right, 5)
        code, out, said = self.tool("predict", self.trained / "plain", "--instances", self.trained / "rows.json")
        self.assertEqual(code, 1, out)
        self.assertIn("rows.json:1: the model has no input 'user'", said)
        code, out, said = self.tool("predict", self.trained / "ratings", "--input", "x.csv", "--format", "csv")
        self.assertEqual((code, "takes JSON lines" in said), (1, True), said)

    def test_staging_other_code_mends_a_model_that_is_trained(self):
        copy, package = self.folder / "copy", self.folder / "code/trainer"
        subprocess.run(["cp", "-r", self.trained / "ratings", copy], check=True)
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "task.py").write_text(RATINGS.replace('"pid":', '"new": [7] * len(instances), "pid":'))
        done = self.tool("stage", self.trained / "job.json", "--job-dir", copy, "--package-path", package,
                         "--module-name", "trainer.task")  # fmt: skip
        self.assertEqual(done[0], 0, done)
        code, out, said = self.tool("predict", copy, "--instances", self.trained / "rows.json")
        self.assertEqual(code, 0, said)
        first = json.loads(out.splitlines()[0])
        self.assertEqual(first["new"], 7)
        self.assertAlmostEqual(first["rating"], self.right[0], 5)
        (package / "task.py").write_text(RATINGS.replace("Linear(6, 1)", "Linear(6, 2)"))
        done = self.tool("stage", self.trained / "job.json", "--job-dir", copy, "--package-path", package,
                         "--module-name", "trainer.task")  # fmt: skip
        self.assertIn("head.weight", str(done), "other variables are refused as the job is staged")

    def answer_files(self, name, state):
        body = {"jobId": name, "predictionInput": {"modelName": "projects/p/models/own", "dataFormat": "JSON",
                                                   "inputPaths": ["gs://data/rows.json"], "region": "us-central1",
                                                   "outputPath": "gs://data/out"}}  # fmt: skip
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs", body)[0], 200)
        return self.wait_for(name, state)

    def test_a_batch_job_answers_files(self):
        self.start_with(None)
        self.deploy("own", self.trained / "ratings")
        inputs = self.root / "storage/data/rows.json"
        inputs.parent.mkdir(parents=True)
        ends = '{"do": "exit before a bad start"}\n'
        inputs.write_text(ends + (self.trained / "rows.json").read_text() + '{"do": "raise"}\n')
        self.answer_files("b1", "SUCCEEDED")
        results = (self.root / "storage/data/out/prediction.results-00000-of-00001").read_text().splitlines()
        for line, right in zip(results, self.right):
            self.assertAlmostEqual(json.loads(line)["rating"], right, 5)
        self.assertEqual(len(results), len(ROWS))
        errors = (self.root / "storage/data/out/prediction.errors_stats-00000-of-00001").read_text()
        self.assertIn("the Python process ended: exit code 3", errors.splitlines()[0])
        self.assertIn("ValueError: no luck", errors.splitlines()[1])
        self.assertEqual(len(errors.splitlines()), 2, "the rows behind one that ends the process are answered")
        self.no_start.write_text("never")
        self.assertIn("RuntimeError: it does not start", self.answer_files("b2", "FAILED")["errorMessage"])

    def test_many_connections_are_answered_each_by_its_own_rows(self):
        self.start_service()
        self.deploy("own", self.trained / "ratings")
        wrong = []

        def ask_on(row):
            connection = Connection(self.address)
            for _ in range(20):
                status, _, body = connection.post(f"{MODELS}/own:predict", json.dumps({"instances": [ROWS[row]]}))
                if status != 200 or abs(json.loads(body)["predictions"][0]["rating"] - self.right[row]) > 1e-5:
                    wrong.append((status, body))
            connection.close()

        threads = [threading.Thread(target=ask_on, args=(row,)) for row in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
