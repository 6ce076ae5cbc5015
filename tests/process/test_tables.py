"""A job with tables: processes are killed, it goes on with more ps, and its rows are what the tool says they are."""

import csv
import json
import os
import pathlib
import random
import signal
import unittest

import numpy
from cluster import ProcessTest, complete, kill, task_of

USERS = [10**12 + 7 * number for number in range(60)] + [-number for number in range(1, 21)]
WORDS = [f"item {number}" for number in range(30)] + ["São Paulo", 'the "old" town']
ITEMS = [*WORDS, ""]  # an empty field is no key, so that it has no row
ROWS = len(USERS) + len(WORDS)
WIDTHS = {"users": 4, "items": 3}


def read_safetensors(path):
    raw = pathlib.Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__")
    types = {"F32": "<f4", "I64": "<i8"}
    return {
        name: numpy.frombuffer(
            raw[8 + size + entry["data_offsets"][0] : 8 + size + entry["data_offsets"][1]], types[entry["dtype"]]
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }


class TablesTest(ProcessTest):
    def draw(self, name, rows, seed):
        """Who likes what: each user and each item has a taste, and they meet."""
        rng = random.Random(seed)
        taste = {key: random.Random(f"taste of {key}").choice([-1, 1]) for key in USERS + ITEMS}
        examples = []
        for _ in range(rows):
            user, item = rng.choice(USERS), rng.choice(ITEMS)
            examples.append((user, item, rng.randrange(24), int(2 * taste[user] + taste[item] > 0)))
        with open(self.folder / name, "w", newline="") as file:
            csv.writer(file).writerows([("user", "item", "hour", "liked"), *examples])
        return examples

    def write_table_job(self):
        columns = [{"name": "user", "key": "integer"}, {"name": "item", "key": "text"}, {"name": "hour"}]
        job = {
            "name": "tables",
            "cluster": {"workerCount": 2, "parameterServerCount": 2},
            "data": {"format": "csv", "train": "train.csv", "eval": "eval.csv", "label": "liked", "columns": columns},
            "model": {
                "tables": [{"name": name, "width": width} for name, width in WIDTHS.items()],
                "tableBuckets": 8,
                "inputs": [{"name": "numbers", "columns": ["hour"]}],
                "layers": [
                    {"name": "u", "embedding": {"table": "users", "column": "user"}},
                    {"name": "i", "embedding": {"table": "items", "column": "item"}},
                    {"name": "all", "from": ["u", "i", "numbers"], "concat": {}},
                    {"name": "out", "dense": {"units": 2}},
                ],
            },
            "training": {"batchSize": 32, "leaseBatches": 4, "epochs": 1_000_000, "metrics": ["logLoss"],
                         "optimizer": {"name": "adagrad", "learningRate": 0.05}},
            "checkpoint": {"every": "200ms"},
        }  # fmt: skip
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(job))

    def asked(self, *words):
        code, out, err = self.tool(*words, "--job-dir", self.job_dir, "-o", "json")
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def exported(self, *words):
        path = self.folder / "exported"
        code, _, err = self.tool(*words, "--job-dir", self.job_dir, "--out", path)
        self.assertEqual(code, 0, err)
        return path

    def rows_of(self, table):
        found = read_safetensors(self.exported("table", "export", "--table", table))
        self.assertEqual(found["values"].shape, (len(found["ids"]), WIDTHS[table]))
        rows = dict(zip(found["ids"].tolist(), found["values"].astype("float64")))
        self.assertEqual(len(rows), len(found["ids"]), "each key once")
        return rows

    def run_until(self, condition, *words, meanwhile=lambda run: None):
        run = self.start_run(*words)
        meanwhile(run)
        # A ps tells of its rows by the heartbeat behind their restore.
        status = self.wait_until(lambda s: complete(s) and s.get("tables", {}).get("rows") == ROWS and condition(s))
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.check_cancelled()
        return status

    def kill_some(self, run):
        for name in ("worker-1", "ps-0"):
            status = self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)
            pid = task_of(status, name)["pid"]
            kill(pid)
            run.wait_for_line(rf"{name} \(pid {pid}\) ended: signal 9 \(SIGKILL\); started again")

    def test_a_step_of_more_rows_than_a_message_has_ends_the_job_with_a_sentence(self):
        self.write_table_job()
        with open(self.folder / "train.csv", "w", newline="") as file:
            csv.writer(file).writerows([("user", "item", "hour", "liked"), *((n, "a", 1, n % 2) for n in range(5000))])
        job = json.loads(self.job_file.read_text())
        job["data"].pop("eval")
        job["model"].update(tableBuckets=1, tables=[{"name": "users", "width": 100}, {"name": "items", "width": 3}])
        job["training"].update(batchSize=2600, leaseBatches=1)
        self.job_file.write_text(json.dumps(job))
        run = self.start_run()
        self.assertEqual(run.finish()[0], 1, run.said)
        told = r"^the job ended at worker-\d: a step needs 10\d{5} bytes of rows of one bucket, of at most 1048576: "
        self.assertRegex(self.summary()["errorMessage"], told)

    def test_a_new_job_begins_with_yesterdays_rows(self):
        self.draw("train.csv", 600, seed=1)
        self.draw("eval.csv", 100, seed=2)
        self.write_table_job()
        job = json.loads(self.job_file.read_text())
        job["training"]["epochs"] = 4
        self.job_file.write_text(json.dumps(job))
        self.assertEqual(self.start_run().finish()[0], 0)
        users, items = self.rows_of("users"), self.rows_of("items")
        # Other servers, buckets and layers, and steps so small that rows stay what they were.
        job["cluster"]["parameterServerCount"] = 3
        job["model"].update(initializeFrom=str(self.job_dir), tableBuckets=5)
        job["model"]["layers"][-1:] = [{"name": "more", "dense": {"units": 5}}, {"name": "out", "dense": {"units": 2}}]
        small = {"name": "adagrad", "learningRate": 1e-9}
        tables = [{"name": name, "width": WIDTHS[name], "optimizer": small} for name in ("items", "users")]
        job["model"]["tables"] = tables
        job["training"]["epochs"] = 1
        self.job_file.write_text(json.dumps(job))
        self.job_dir = self.folder / "second"
        run = self.start_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        for before, after in ((users, self.rows_of("users")), (items, self.rows_of("items"))):
            self.assertEqual(set(before), set(after))
            for key, row in before.items():
                numpy.testing.assert_allclose(after[key], row, atol=1e-5)
        self.assertIn("2 tables from", (self.job_dir / "logs/chief.log").read_text())

    def test_rows_outlive_kills_and_go_to_more_ps(self):
        self.draw("train.csv", 2000, seed=1)
        examples = self.draw("eval.csv", 300, seed=2)
        self.write_table_job()
        learned = lambda s: s.get("evaluation", {}).get("accuracy", 0) > 0.97  # noqa: E731
        before = self.run_until(learned, meanwhile=self.kill_some)
        self.assertGreaterEqual(self.summary()["psLost"], 1)
        first = self.asked("table", "stats")
        done = before["progress"]["examplesCommitted"]
        after = self.run_until(lambda s: s["progress"]["examplesCommitted"] > done + 10_000, "--resume", "--set",
                               "cluster.parameterServerCount=3")  # fmt: skip
        rows = [task["tables"]["rows"] for task in after["tasks"] if task["role"] == "ps"]
        self.assertEqual((len(rows), sum(rows)), (3, ROWS))
        self.assertNotEqual(first, self.asked("table", "stats"))
        self.check_rows(examples)

    def check_rows(self, examples):
        stats = {table["name"]: table for table in self.asked("table", "stats")["tables"]}
        users, items = self.rows_of("users"), self.rows_of("items")
        self.assertEqual(set(users), set(USERS))
        for name, rows in (("users", users), ("items", items)):
            norms = [numpy.linalg.norm(row) for row in rows.values()]
            self.assertEqual(stats[name]["rows"], len(rows))
            self.assertAlmostEqual(stats[name]["meanNorm"], numpy.mean(norms), delta=1e-6)
            self.assertAlmostEqual(stats[name]["largestNorm"], max(norms), delta=1e-6)
        words = self.asked("table", "get", "--table", "items", "--text", *WORDS)["rows"]
        key_of = {row["text"]: row["key"] for row in words}
        self.assertEqual(set(items), set(key_of.values()))
        for row in words:
            self.assertEqual(row["values"], items[row["key"]].astype("float32").tolist(), row)
        with open(self.exported("table", "export", "--table", "users", "--format", "csv"), newline="") as file:
            lines = list(csv.reader(file))
        self.assertEqual(lines[0], ["key", "v0", "v1", "v2", "v3"])
        for key, *values in lines[1:]:
            self.assertEqual(numpy.float32(values).tolist(), users[int(key)].astype("float32").tolist())
        by_word = {word: items[key] for word, key in key_of.items()}
        self.check_evaluation(examples, users, by_word | {"": numpy.zeros(WIDTHS["items"])})

    def check_evaluation(self, examples, users, items):
        dense = read_safetensors(self.exported("export"))
        inputs = numpy.stack([numpy.concatenate([users[u], items[i], [hour]]) for u, i, hour, _ in examples])
        outputs = inputs @ dense["out/kernel"].astype("float64") + dense["out/bias"]
        labels = numpy.array([liked for *_, liked in examples])
        losses = numpy.logaddexp(outputs[:, 0], outputs[:, 1]) - outputs[numpy.arange(len(labels)), labels]
        told = self.asked("evaluate")
        self.assertEqual(told["examples"], len(examples))
        self.assertAlmostEqual(told["loss"], losses.mean(), delta=1e-5)
        self.assertAlmostEqual(told["metrics"]["logLoss"], losses.mean(), delta=1e-5)
        self.assertGreater(told["accuracy"], 0.95)


if __name__ == "__main__":
    unittest.main()
