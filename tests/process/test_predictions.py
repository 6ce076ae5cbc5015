"""The service answers from trained models: versions that come and go, other protocols, hostile bodies, kills."""

import http.client
import json
import random
import shutil
import signal
import socket
import struct
import subprocess
import threading
import unittest

from cluster import LONG, kill
from prediction_service import MODELS, WIDTH, Connection, PredictionCase

PREDICT = f"{MODELS}/digits:predict"


class Load:
    """Threads that ask without pause, and what they heard: each answer must be wholly of the version that it names."""

    def __init__(self, test, threads=3):
        self.test = test
        self.body = json.dumps({"instances": test.rows[:3]})
        self.right = {v: json.dumps(test.predictions(f"digits/versions/{v}", 3)) for v in ("v1", "v2")}
        test.assertNotEqual(*self.right.values())
        self.wrong, self.answers, self.seen, self.broken = [], 0, set(), 0
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=self.ask_on) for _ in range(threads)]
        for thread in self.threads:
            thread.start()
        test.addCleanup(self.end)

    def ask_on(self):
        connection = Connection(self.test.address)
        while not self.ends.is_set():
            try:
                status, headers, body = connection.post(PREDICT, self.body)
            except (OSError, http.client.HTTPException):  # a service that was killed, or a kept connection that ended
                self.broken += 1
                connection.close()
                continue
            if status != 200 or json.dumps(json.loads(body)["predictions"]) != self.right[headers["Downpour-Version"]]:
                self.wrong.append((status, headers.get("Downpour-Version"), body[:300]))
            else:
                self.answers += 1
                self.seen.add(headers["Downpour-Version"])
        connection.close()

    def wait_for_more(self, count=20):
        until = self.answers + count
        while self.answers < until and not self.wrong:
            threading.Event().wait(0.01)

    def end(self):
        self.ends.set()
        for thread in self.threads:
            thread.join(LONG)


class ModelsTest(PredictionCase):
    def test_a_jobs_model_answers_by_its_gs_folder_its_name_and_its_file(self):
        self.start_service()
        body = {"jobId": "wd1", "jobFile": self.job_text(), "trainingInput": {"jobDir": "gs://models/wd1"}}
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs", body)[0], 200)
        self.wait_for("wd1", "SUCCEEDED")
        self.create_model()
        exported = self.root / "storage/models/export/model.safetensors"
        exported.parent.mkdir(parents=True)
        self.assertEqual(self.tool("export", "--job-dir", self.root / "jobs/wd1", "--out", exported)[0], 0)
        origins = {"a": "gs://models/wd1", "b": "gs://models/wd1/", "c": "wd1", "d": "wd1/latest",
                   "e": self.root / "jobs/wd1", "f": "gs://models/export", "g": exported}  # fmt: skip
        for name, origin in origins.items():
            self.deploy(name, origin)
        answers = [self.predictions(f"digits/versions/{name}") for name in origins]
        self.check_right(answers[0])
        for answer in answers[1:]:
            self.assertEqual([row["class"] for row in answer], [row["class"] for row in answers[0]])
        checkpoint = max((self.root / "jobs/wd1/checkpoints").iterdir()).name
        self.deploy("h", f"wd1/checkpoints/{checkpoint}")
        self.assertEqual(self.predictions("digits/versions/h"), answers[0])

        # What was deployed does not change with its origin.
        self.assertEqual(self.ask("DELETE", "/v1/projects/p/jobs/wd1")[0], 200)
        shutil.rmtree(self.root / "storage/models")
        kill(self.service.pid)
        self.service.end()
        self.start_service()
        for name in "afg":
            self.assertEqual(self.predictions(f"digits/versions/{name}"), answers[list(origins).index(name)])

    def test_the_default_version_and_what_may_be_deleted(self):
        self.start_service()
        self.deploy_both()
        model = self.ask("GET", f"{MODELS}/digits")[1]
        self.assertTrue(model["defaultVersion"]["name"].endswith("/versions/v1"))
        self.assertEqual(self.predictions(), self.predictions("digits/versions/v1"))
        self.assertIn("make another one the default first", str(self.ask("DELETE", f"{MODELS}/digits/versions/v1")))
        self.assertIn("delete its versions first", str(self.ask("DELETE", f"{MODELS}/digits")))
        self.assertEqual(self.ask("POST", f"{MODELS}/digits/versions/v2:setDefault", {})[1]["isDefault"], True)
        self.assertEqual(self.predictions(), self.predictions("digits/versions/v2"))
        for name in ("v1", "v2"):
            self.assertTrue(self.ask("DELETE", f"{MODELS}/digits/versions/{name}")[1]["done"])
        self.assertFalse((self.root / "models/digits").exists())
        self.assertEqual(self.ask("POST", PREDICT, {"instances": self.rows[:1]})[0], 400)
        self.assertTrue(self.ask("DELETE", f"{MODELS}/digits")[1]["done"])
        self.assertEqual(self.ask("GET", MODELS), (200, {}))

    def test_lists_come_in_pages_and_can_be_narrowed(self):
        self.start_service()
        for name in ("a", "b", "c"):
            self.create_model(name, labels={"team": name}, description=f"the model {name}")
        page = self.ask("GET", f"{MODELS}?pageSize=2")[1]
        rest = self.ask("GET", f"{MODELS}?pageSize=2&pageToken={page['nextPageToken']}")[1]
        names = [model["name"].rsplit("/", 1)[1] for model in page["models"] + rest["models"]]
        self.assertEqual((names, "nextPageToken" in rest), (["a", "b", "c"], False))
        found = self.ask("GET", f"{MODELS}?filter=labels.team%3Db")[1]["models"]
        self.assertEqual([model["description"] for model in found], ["the model b"])
        for query, words in (("filter=color%3Dred", "is none here"), ("pageToken=zz", "nextPageToken of an answer"),
                             ("pageSize=-1", "pageSize")):  # fmt: skip
            status, answer = self.ask("GET", f"{MODELS}?{query}")
            self.assertEqual((status, words in str(answer)), (400, True), answer)
        etag = self.ask("GET", f"{MODELS}/a")[1]["etag"]
        changed = {"description": "new", "labels": {"team": "z"}, "etag": etag}
        status, done = self.ask("PATCH", f"{MODELS}/a?updateMask=description,labels", changed)
        self.assertEqual(status, 200, done)
        self.assertEqual((done["response"]["description"], done["response"]["labels"]), ("new", {"team": "z"}))
        self.assertEqual(self.ask("PATCH", f"{MODELS}/a?updateMask=description", changed)[0], 409)
        operations = self.ask("GET", "/v1/projects/p/operations")[1]["operations"]
        self.assertEqual([one["metadata"]["operationType"] for one in operations], ["UPDATE_MODEL"])

    def test_what_the_old_service_did_and_this_one_does_not_is_refused_by_name(self):
        self.start_service()
        self.create_model()
        good = {"name": "v1", "deploymentUri": str(self.trained / "first")}
        for field, value in (("acceleratorConfig", {"count": 1}), ("autoScaling", {"minNodes": 1}),
                             ("manualScaling", {"nodes": 2}), ("framework", "XGBOOST"), ("predictionClass", "a.B"),
                             ("packageUris", ["gs://a/b"]), ("container", {"image": "x"}), ("routes", {}),
                             ("explanationConfig", {}), ("serviceAccount", "x"), ("nonsense", 1)):  # fmt: skip
            status, answer = self.ask("POST", f"{MODELS}/digits/versions", good | {field: value})
            self.assertEqual((status, field in answer["error"]["message"]), (400, True), answer)
        for name in ("1v", "", "a" * 129, "a-b", "../x"):
            self.assertEqual(self.ask("POST", f"{MODELS}/digits/versions", good | {"name": name})[0], 400, name)
            self.assertEqual(self.ask("POST", MODELS, {"name": name})[0], 400, name)
        self.deploy("v1", self.trained / "first")
        self.assertIn("not explained", str(self.ask("POST", f"{MODELS}/digits:explain", {"instances": [1]})))

    def test_an_origin_that_is_no_model_fails_with_words(self):
        self.start_service()
        self.create_model()
        (self.root / "storage/models/empty").mkdir(parents=True)
        (self.root / "storage/models/link").symlink_to(self.trained / "first")
        (self.root / "storage/models/text.safetensors").write_text("no tensors")
        broken = self.folder / "broken"
        shutil.copytree(self.trained / "first", broken)
        for shard in broken.glob("checkpoints/*/*.shard"):
            shard.write_bytes(shard.read_bytes()[:-1] + b"x")
        for i, (origin, words) in enumerate([
            ("gs://models/none", "there is nothing at the origin"), ("nojob", "is no job of this service"),
            ("gs://models/empty", "holds no checkpoint"), ("gs://models/link", "leads through a link"),
            ("gs://models/text.safetensors", ""), (self.folder / "broken", ""), ("/etc/passwd", ""),
            (self.trained / "first/checkpoints/9-9", ""),
        ]):  # fmt: skip
            self.deploy(f"v{i}", origin, expected=words)
            self.assertEqual(self.ask("GET", f"{MODELS}/digits/versions/v{i}")[1]["state"], "FAILED")
        self.assertNotIn("defaultVersion", self.ask("GET", f"{MODELS}/digits")[1])
        refused = self.ask("POST", f"{MODELS}/digits/versions/v0:predict", {"instances": [1]})
        self.assertIn("cannot answer", str(refused))
        self.assertTrue(self.ask("DELETE", f"{MODELS}/digits/versions/v0")[1]["done"])
        self.deploy("v0", self.trained / "first")
        self.check_right(self.predictions())

    def test_numbers_are_counted_by_version_and_requests_are_logged(self):
        self.start_service()
        self.create_model(onlinePredictionLogging=True)
        self.deploy("v1", self.trained / "first")
        self.predictions(count=5)
        self.assertEqual(self.ask("POST", PREDICT, {"instances": ["x"]})[0], 400)
        text = self.ask("GET", "/metrics")[1].decode()
        for line in ('downpour_prediction_requests_total{model="digits",version="v1"} 2',
                     'downpour_prediction_errors_total{model="digits",version="v1"} 1',
                     'downpour_prediction_rows_total{model="digits",version="v1"} 5',
                     'downpour_prediction_latency_seconds_bucket{model="digits",version="v1",le="+Inf"} 2',
                     'downpour_prediction_latency_seconds_count{model="digits",version="v1"} 2'):  # fmt: skip
            self.assertIn(line + "\n", text)
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        row = self.ask("GET", f"{MODELS}:overview")[1]["models"][0]["versions"][0]
        self.assertEqual((row["requests"], row["errors"], row["rows"]), (2, 1, 5))
        lines = (self.root / "models/digits/requests.log").read_text().splitlines()
        self.assertRegex(lines[0], r"Z digits/v1 peer=127\.0\.0\.1 rows=5 code=200 ms=\d")
        self.assertIn("code=400", lines[1])

    def test_our_own_verb_deploys_and_asks(self):
        self.start_service()
        place = ("--service", f"http://{self.address}")
        code, out, err = self.tool("models", "deploy", "digits", "v1", self.trained / "first", *place)
        self.assertEqual((code, "is ready, from" in out), (0, True), out + err)
        code, out, err = self.tool("models", "deploy", "digits", "v2", self.trained / "second/latest", *place,
                                   "--set-default")  # fmt: skip
        self.assertEqual(code, 0, out + err)
        rows = self.folder / "rows.json"
        rows.write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        code, out, err = self.tool("models", "predict", "digits", "--instances", rows, *place)
        self.assertEqual(code, 0, err)
        self.assertEqual([json.loads(line) for line in out.splitlines()], self.predictions("digits/versions/v2"))
        self.assertRegex(self.tool("models", "list", *place)[1], r"digits +v2 +READY +yes")
        self.assertEqual(len(json.loads(self.tool("models", "describe", "digits", *place)[1])["versions"]), 2)
        self.assertIn("default", self.tool("models", "set-default", "digits", "v1", *place)[1])
        self.assertEqual(self.tool("models", "delete", "digits", "v2", *place)[0], 0)
        self.assertEqual(self.tool("models", "deploy", "digits", "v2", "nojob", *place)[0], 1)


class BatchTest(PredictionCase):
    def batch(self, name, **changes):
        body = {"inputPaths": ["gs://data/rows"], "outputPath": "gs://data/out", "dataFormat": "JSON",
                "modelName": "projects/p/models/digits"} | changes  # fmt: skip
        body = {key: value for key, value in body.items() if value is not None}
        return self.ask("POST", "/v1/projects/p/jobs", {"jobId": name, "predictionInput": body})

    def test_files_are_answered_by_a_version_or_a_folder_and_outlive_the_service(self):
        self.start_service()
        self.deploy_both()
        rows = self.root / "storage/data/rows"
        rows.parent.mkdir(parents=True)
        rows.write_text("".join(json.dumps(row) + "\n" for row in self.rows * 50))
        shutil.copytree(self.trained / "second", self.root / "storage/data/model")
        self.assertEqual(self.batch("one")[0], 200)
        self.assertEqual(self.batch("two", modelName=None, uri="gs://data/model", outputPath="gs://data/out2")[0], 200)
        kill(self.service.pid)
        self.service.end()
        self.start_service()
        for name, version, out in (("one", "v1", "out"), ("two", "v2", "out2")):
            self.wait_for(name, "SUCCEEDED")
            text = (self.root / f"storage/data/{out}/prediction.results-00000-of-00001").read_text()
            self.assertEqual([json.loads(line) for line in text.splitlines()],
                             self.predictions(f"digits/versions/{version}") * 50)  # fmt: skip
            self.assertEqual(self.job_of(name)["predictionOutput"]["predictionCount"], "2000")
        overview = self.ask("GET", "/v1/projects/p/jobs:overview")[1]["jobs"]
        self.assertEqual([job["done"] for job in overview], [1, 1])

    def test_what_cannot_be_is_refused_by_its_field(self):
        self.start_service()
        self.deploy_both()
        for i, (changes, words) in enumerate([
            ({"inputPaths": []}, "inputPaths"), ({"inputPaths": ["/etc/passwd"]}, "inputPaths"),
            ({"outputPath": "x"}, "outputPath"), ({"dataFormat": "TF_RECORD"}, "dataFormat"),
            ({"modelName": None}, "modelName"), ({"uri": "gs://a/b"}, "one of them"), ({"nonsense": 1}, "nonsense"),
            ({"modelName": "projects/p/models/none"}, "there is no model none"), ({"accelerator": {}}, "accelerator"),
            ({}, "there is no file gs://data/rows"), ({"inputPaths": ["gs://data/../x"]}, ""),
        ]):  # fmt: skip
            status, answer = self.batch(f"job{i}", **changes)
            self.assertEqual((status, words in str(answer)), (400, True), answer)
        both = {"jobId": "both", "jobFile": self.job_text(), "predictionInput": {}}
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs", both)[0], 400)


class ChangeTest(PredictionCase):
    def test_a_hundred_changes_of_version_under_load_break_and_mix_no_answer(self):
        self.start_service()
        self.deploy_both()
        load = Load(self)
        for i in range(100):
            load.wait_for_more(3)
            name = ("v2", "v1")[i % 2]
            self.assertEqual(self.ask("POST", f"{MODELS}/digits/versions/{name}:setDefault", {})[0], 200)
        load.wait_for_more()
        load.end()
        self.assertEqual((load.wrong, load.broken, load.seen), ([], 0, {"v1", "v2"}))

    def test_a_version_that_is_deleted_answers_those_who_have_it(self):
        self.start_service()
        self.deploy_both()
        load = Load(self)
        for _ in range(5):
            load.wait_for_more()
            self.ask("POST", f"{MODELS}/digits/versions/v2:setDefault", {})
            self.assertTrue(self.ask("DELETE", f"{MODELS}/digits/versions/v1")[1]["done"])
            load.wait_for_more()
            self.deploy("v1", self.trained / "first")
            self.ask("POST", f"{MODELS}/digits/versions/v1:setDefault", {})
        load.end()
        self.assertEqual(load.wrong, [])

    def test_a_killed_service_has_its_versions_again(self):
        self.start_service()
        self.deploy_both()
        load = Load(self)
        rng = random.Random(7)
        for i in range(6):
            load.wait_for_more()
            name = rng.choice(("v1", "v2"))
            self.assertEqual(self.ask("POST", f"{MODELS}/digits/versions/{name}:setDefault", {})[0], 200)
            extra = {"name": f"extra{i}", "deploymentUri": str(self.trained / "first")}
            told = self.ask("POST", f"{MODELS}/digits/versions", extra)[0] == 200
            self.service.signal(signal.SIGKILL)
            self.service.end()
            self.start_service()
            default = self.ask("GET", f"{MODELS}/digits")[1]["defaultVersion"]["name"]
            self.assertTrue(default.endswith("/" + name), "what was answered is not lost")
            self.assertTrue(told)
            version = {}
            while version.get("state") != "READY":  # also where it was being deployed
                version = self.ask("GET", f"{MODELS}/digits/versions/extra{i}")[1]
                self.assertNotEqual(version["state"], "FAILED", version)
        load.wait_for_more()
        load.end()
        self.assertEqual(load.wrong, [])
        for i in range(6):
            self.check_right(self.predictions(f"digits/versions/extra{i}"))


class ProtocolsTest(PredictionCase):
    def setUp(self):
        super().setUp()
        self.start_service()
        self.deploy_both()
        self.right = self.predictions(count=2)

    def test_tensorflow_servings_bodies(self):
        rows = self.rows[:2]
        for place in ("digits", "digits/versions/v1", "digits/versions/1"):
            status, answer = self.ask("POST", f"/v1/models/{place}:predict", {"instances": rows})
            self.assertEqual((status, answer), (200, {"predictions": self.right}))
        status, answer = self.ask("POST", "/v1/models/digits:predict", {"inputs": rows})
        self.assertEqual((status, answer["outputs"]["class"]), (200, [row["class"] for row in self.right]))
        states = self.ask("GET", "/v1/models/digits")[1]["model_version_status"]
        self.assertEqual([(one["version"], one["state"]) for one in states], [("v1", "AVAILABLE"), ("v2", "AVAILABLE")])
        metadata = self.ask("GET", "/v1/models/digits/metadata")[1]
        inputs = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
        self.assertEqual(next(iter(inputs.values()))["tensor_shape"]["dim"][1]["size"], str(WIDTH))
        for path, status in (("/v1/models/none:predict", 404), ("/v1/models/digits/versions/9:predict", 404),
                             ("/v1/models/digits:classify", 400), ("/v1/models/digits/nothing", 404)):  # fmt: skip
            code, answer = self.ask("POST", path, {"instances": rows})
            self.assertEqual((code, type(answer["error"])), (status, str), answer)

    def infer(self, inputs, headers=None, **more):
        body = inputs if isinstance(inputs, bytes) else json.dumps({"inputs": inputs, **more}).encode()
        connection = Connection(self.address)
        self.addCleanup(connection.close)
        return connection.post("/v2/models/digits/infer", body, headers)

    def test_open_inference_as_json(self):
        flat = [value for row in self.rows[:2] for value in row]
        name = self.ask("GET", "/v2/models/digits")[1]["inputs"][0]["name"]
        for data in (flat, self.rows[:2]):
            tensor = {"name": name, "shape": [2, WIDTH], "datatype": "FP32", "data": data}
            status, _, body = self.infer([tensor], id="seven")
            answer = json.loads(body)
            self.assertEqual((status, answer["id"], answer["model_version"]), (200, "seven", "v1"), answer)
            outputs = {output["name"]: output for output in answer["outputs"]}
            self.assertEqual(outputs["class"]["data"], [row["class"] for row in self.right])
            self.assertEqual(outputs["probabilities"]["shape"], [2, 10])
        only = json.loads(self.infer([tensor], outputs=[{"name": "class"}])[2])
        self.assertEqual([output["name"] for output in only["outputs"]], ["class"])
        self.assertEqual(self.ask("GET", "/v2/health/live")[0], 200)
        self.assertEqual(self.ask("GET", "/v2/health/ready")[0], 200)
        self.assertEqual(self.ask("GET", "/v2/models/digits/versions/v2/ready")[0], 200)
        self.assertEqual(self.ask("GET", "/v2")[1]["extensions"], ["binary_tensor_data"])
        self.assertEqual(self.ask("GET", "/v2/models/none/ready")[0], 404)

    def test_open_inference_with_binary_tensors(self):
        values = struct.pack(f"<{2 * WIDTH}f", *[value for row in self.rows[:2] for value in row])
        head = json.dumps({"inputs": [{"name": "image", "shape": [2, WIDTH], "datatype": "FP32",
                                       "parameters": {"binary_data_size": len(values)}}],
                           "outputs": [{"name": "class", "parameters": {"binary_data": True}}]}).encode()  # fmt: skip
        length = {"Inference-Header-Content-Length": str(len(head))}
        status, headers, body = self.infer(head + values, length)
        self.assertEqual(status, 200, body)
        at = int(headers["Inference-Header-Content-Length"])
        self.assertEqual(json.loads(body[:at])["outputs"][0]["parameters"], {"binary_data_size": len(body) - at})
        self.assertEqual(list(struct.unpack("<2q", body[at:])), [row["class"] for row in self.right])
        for wrong, words in ((head + values[:-1], "than follow"), (head + values + b"x", "follow the last"),
                             (head[:-1] + values, "")):  # fmt: skip
            status, _, body = self.infer(wrong, length)
            self.assertEqual((status, words in json.loads(body)["error"]), (400, True), body)
        self.assertEqual(self.infer(head, {"Inference-Header-Content-Length": "99999999"})[0], 400)
        self.assertEqual(self.infer(head, {"Inference-Header-Content-Length": "-1"})[0], 400)

    def test_hostile_bodies_are_refused_and_cost_nothing_else(self):
        row = self.rows[0]
        bodies = [b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"instances": ' + b"[" * 50 + b"]" * 50 + b"}",
                  b'{"instances": 7}', b'{"instances": [[1, 2]]}', json.dumps({"instances": [row[:-1]]}).encode(),
                  json.dumps({"instances": [row[:-1] + ["x"]]}).encode(),
                  json.dumps({"instances": [row], "inputs": row}).encode(),
                  json.dumps({"instances": [{"nothing": 1}]}).encode(), b'{"instances": [[NaN]]}', b"\xff\xfe",
                  b'{"instances": [' + b"9" * 400 + b"]}"]  # fmt: skip
        for body in bodies:
            for path in (PREDICT, "/v1/models/digits:predict", "/v2/models/digits/infer"):
                status, answer = self.ask("POST", path, body)
                self.assertIn(status, (400, 413), (body[:60], answer))
        for tensor in ({"shape": [2**62, 4]}, {"shape": [-1, WIDTH]}, {"shape": [1, 2, 0]}, {"shape": "x"},
                       {"shape": []}, {"datatype": "FP8"}, {"datatype": 7}, {"data": "x"}, {"data": [1]},
                       {"data": [[["x"]]]}, {"name": 1}, {"name": "other"}, {"parameters": {"binary_data_size": 9}},
                       {"datatype": "INT64", "data": [2**63] * WIDTH}):  # fmt: skip
            good = {"name": "image", "shape": [1, WIDTH], "datatype": "FP32", "data": row}
            status, _, body = self.infer([good | tensor])
            self.assertEqual((status, "error" in json.loads(body)), (400, True), (tensor, body))
        too_long = b'{"instances": [' + b" " * (5 << 20) + b"]}"
        self.assertEqual(self.ask("POST", PREDICT, too_long)[0], 413)
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: {self.address}\r\nContent-Length: 1000000000\r\n\r\n"
        with socket.create_connection(("127.0.0.1", int(self.address.split(":")[1]))) as slow:
            slow.sendall(head.encode())  # and no body
            self.assertEqual(self.predictions(count=2), self.right)
        self.assertEqual(self.predictions(count=2), self.right)

    def test_one_connection_takes_many_predictions(self):
        connection = Connection(self.address)
        self.addCleanup(connection.close)
        connection.post(PREDICT, json.dumps({"instances": self.rows[:1]}))
        first = connection.http.sock
        for count in (1, 2, 3):
            status, _, body = connection.post(PREDICT, json.dumps({"instances": self.rows[:count]}))
            self.assertEqual((status, len(json.loads(body)["predictions"])), (200, count))
        self.assertIs(connection.http.sock, first)
        self.assertEqual(connection.post(PREDICT, b"{")[0], 400)
        self.assertEqual(connection.post(PREDICT, json.dumps({"instances": self.rows[:1]}))[0], 200)

    def test_many_who_are_idle_keep_nobody_from_the_status(self):
        idle = [Connection(self.address) for _ in range(40)]
        for connection in idle:
            self.addCleanup(connection.close)
            self.assertEqual(connection.post(PREDICT, json.dumps({"instances": self.rows[:1]}))[0], 200)
        self.assertEqual(self.ask("GET", "/v1/projects/p/jobs")[0], 200)


class RightsTest(PredictionCase):
    def test_each_token_has_its_right(self):
        tokens = {}
        kinds = ("token", "viewer-token", "asker-token", "submitter-token", "deployer-token")
        for kind in kinds:
            file = self.folder / kind
            file.write_text(kind + "-0123456789abcdef\n")
            file.chmod(0o600)
            tokens[kind.split("-")[0]] = {"Authorization": f"Bearer {kind}-0123456789abcdef"}
        self.start_service(*[word for kind in kinds for word in (f"--{kind}-file", self.folder / kind)])
        self.create_model()
        shutil.copytree(self.trained / "first", self.root / "storage/models/first")
        instances = {"instances": self.rows[:1]}
        inside = {"name": "v1", "deploymentUri": "gs://models/first"}
        outside = {"name": "v1", "deploymentUri": str(self.trained / "first")}
        asks = {
            "look": ("GET", "/v1/projects/p/jobs", None), "model": ("GET", f"{MODELS}/digits", None),
            "any": ("POST", f"{MODELS}/digits/versions", outside),
            "deploy": ("POST", f"{MODELS}/digits/versions", inside),
            "ask": ("POST", PREDICT, instances), "serving": ("POST", "/v1/models/digits:predict", instances),
            "default": ("POST", f"{MODELS}/digits/versions/v1:setDefault", {}),
            "submit": ("POST", "/v1/projects/p/jobs", {"jobId": "no job"}),
        }  # fmt: skip
        self.deploy("v0", self.root / "storage/models/first")
        may = {
            "viewer": {"look", "model"}, "asker": {"model", "ask", "serving"}, "submitter": {"look", "model", "submit"},
            "deployer": {"look", "model", "deploy", "ask", "serving", "default"},
        }  # fmt: skip
        for kind, rights in may.items():
            for what, (method, path, body) in asks.items():
                status, answer = self.ask(method, path, body, tokens[kind])
                self.assertEqual(status != 403, what in rights, f"{kind} {what}: {answer}")
                if status == 403:
                    self.assertEqual(isinstance(answer["error"], str), what == "serving")
        elsewhere = {"Origin": "http://localhost:1"}
        default = f"{MODELS}/digits/versions/v1:setDefault"
        for path in (PREDICT, "/v1/models/digits:predict", "/v2/models/digits/infer", default):
            self.assertEqual(self.ask("POST", path, instances, elsewhere)[0], 403, path)


if __name__ == "__main__":
    unittest.main()
