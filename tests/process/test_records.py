"""Jobs on CSV files as other programs wrote them: what is learned is what pandas and numpy compute from the same."""

import json
import os
import pathlib
import signal
import unittest

import numpy
import pandas
from cluster import ROOT, ProcessTest, complete, kill, task_of
from model_files import read_safetensors

DATA = os.environ.get("DOWNPOUR_DATA")


def dense(values, name, inputs):
    return inputs @ values[f"{name}/kernel"] + values[f"{name}/bias"]


class RecordsTest(ProcessTest):
    def job_on(self, **sections):
        """A small job on CSV in self.job_file."""
        job = {
            "name": "records",
            "cluster": {"workerCount": 2, "parameterServerCount": 2},
            "data": {"format": "csv", "train": "train-*.csv", "eval": "eval.csv"},
            "training": {"batchSize": 32, "leaseBatches": 4, "optimizer": {"name": "adagrad", "learningRate": 0.1}},
            "checkpoint": {"every": "200ms"},
        }
        for section, entries in sections.items():
            job.setdefault(section, {}).update(entries)
        self.job_file = self.folder / "job.yaml"
        self.job_file.write_text(json.dumps(job))

    def values(self):
        path = self.folder / "model.safetensors"
        code, _, err = self.tool("export", "--format", "safetensors", "--job-dir", self.job_dir, "--out", path)
        self.assertEqual(code, 0, err)
        return read_safetensors(path)

    def evaluated(self, *more):
        code, out, err = self.tool("evaluate", "--job-dir", self.job_dir, "-o", "json", *more)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def run_job(self, *more):
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, "--trace", *more)
        self.assertEqual(code, 0, out + err)
        summary = self.summary()
        self.assertEqual(summary["state"], "SUCCEEDED")
        self.check_ledger()
        return summary

    def draw(self, rows, seed):
        draw = numpy.random.default_rng(seed)
        return pandas.DataFrame(
            {
                "size, in m2": draw.normal(80, 20, rows).round(1),
                "floor": draw.choice([numpy.nan, 0, 1, 2, 30], rows),
                "city": draw.choice(["Ulm", "Bern", 'the "old" town', "São Paulo", ""], rows),
                "note": draw.choice(["line\nend", "a,b", "-"], rows),
            }
        )

    def test_a_number_is_learned_from_several_files_and_equals_what_numpy_computes(self):
        frames = [self.draw(rows, seed) for seed, rows in enumerate((700, 1, 455))]
        worth = {"Ulm": 1.0, "Bern": 2.5, 'the "old" town': 0.25}
        for frame in frames:
            floor = frame["floor"].fillna(-1).clip(-1, 5)
            frame["price"] = frame["size, in m2"] / 40 + 0.2 * floor + frame["city"].map(worth).fillna(-1)
        for i, frame in enumerate(frames[:2]):
            frame.to_csv(self.folder / f"train-{i}.csv", index=False, sep=";", compression=None)
        frames[2].to_csv(self.folder / "eval.csv", index=False, sep=";")
        pandas.Series(worth.keys()).to_csv(self.folder / "cities.txt", index=False, header=False, quoting=3)
        self.job_on(
            data={
                "label": "price",
                "columns": [
                    {"name": "size", "from": "size, in m2", "scale": {"mean": 80, "deviation": 20}},
                    {"name": "floor", "default": -1, "clip": [-1, 5]},
                    {"name": "city", "vocabulary": {"file": "cities.txt"}},
                ],
            },
            model={
                "inputs": [{"name": "all", "columns": ["city", "size", "floor"]}],
                "layers": [{"name": "out", "dense": {"units": 1}}],
                "loss": "meanSquaredError",
            },
            training={"epochs": 30, "metrics": ["rmse"]},
        )
        summary = self.run_job()
        self.assertEqual(summary["examples"], 30 * 701)
        self.assertLess(summary["evalLoss"], 0.02, "of a variance of about 2")

        frame, values = frames[2], self.values()
        cities = numpy.stack([frame["city"] == city for city in worth], 1)
        inputs = numpy.column_stack([cities, ~cities.any(1), (frame["size, in m2"] - 80) / 20,
                                     frame["floor"].fillna(-1).clip(-1, 5)]).astype("float64")  # fmt: skip
        errors = dense(values, "out", inputs)[:, 0] - frame["price"]
        told = self.evaluated()
        self.assertAlmostEqual(told["loss"], float((errors**2).mean()), delta=1e-5)
        self.assertEqual(told["examples"], 455)

    def test_a_job_goes_on_elsewhere_and_trains_each_record_once(self):
        for i in range(3):
            frame = self.draw(500 + i, i)
            frame["label"] = (frame["size, in m2"] > 80).astype(int)
            frame.to_csv(self.folder / f"train-{i}.csv", index=False)
        frame.to_csv(self.folder / "eval.csv", index=False)
        self.job_on(
            data={"label": "label",
                  "columns": [{"name": "size", "from": "size, in m2", "scale": {"mean": 80, "deviation": 20}},
                              {"name": "where", "from": ["city", "note"], "hash": 50}]},
            model={"inputs": [{"name": "all", "columns": "all"}], "layers": [{"dense": {"units": 2}}]},
            training={"epochs": 400},
        )  # fmt: skip
        run = self.start_run()
        status = self.wait_until(lambda status: complete(status) and status["progress"]["leasesCommitted"] > 5)
        kill(task_of(status, "worker-0")["pid"])
        self.wait_until(lambda status: self.checkpoints())
        run.signal(signal.SIGINT)
        run.finish()
        summary = self.run_job("--resume", "--set", "cluster={workerCount: 3, parameterServerCount: 1}",
                               "--set", "training.epochs=401")  # fmt: skip
        self.assertEqual(summary["examples"], 401 * (500 + 501 + 502))
        self.assertGreater(summary["evalAccuracy"], 0.95)
        # Other files in their place are no data of this job.
        (self.folder / "train-1.csv").write_text((self.folder / "train-1.csv").read_text().replace("Ulm", "Elm", 1))
        code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, "--resume",
                                   "--set", "training.epochs=402")  # fmt: skip
        self.assertNotEqual(code, 0)
        self.assertIn(f"{self.folder}/train-1.csv has changed", out + err)

    def test_what_is_wrong_with_a_file_is_told_before_anything_starts(self):
        self.draw(50, 1).to_csv(self.folder / "train-0.csv", index=False)
        self.draw(5, 1).to_csv(self.folder / "eval.csv", index=False)
        model = {"inputs": [{"name": "x"}], "layers": [{"dense": {"units": 2}}]}
        for data, said in (
            ({"columns": [{"name": "x", "from": "flor", "default": 0}], "label": "floor"}, "did you mean floor"),
            ({"columns": [{"name": "x", "from": "city"}], "label": "floor"}, r"train-0\.csv:\d+"),
            ({"columns": [{"name": "x", "from": "floor"}], "label": "floor"}, r"train-0\.csv:\d+.*default"),
            ({"columns": [{"name": "x", "from": "city", "hash": 3}], "label": {"column": "city", "classes": ["Ulm"]}},
             r"train-0\.csv:\d+.*data\.label\.classes"),
            ({"train": "none-*.csv", "columns": ["x"], "label": "floor"}, r"none-\*\.csv"),
        ):  # fmt: skip
            with self.subTest(said=said):
                self.job_on(data=data, model=model)
                code, out, err = self.tool("run", self.job_file, "--job-dir", self.job_dir)
                self.assertNotEqual(code, 0)
                self.assertRegex(err, said)
                self.assertFalse((self.job_dir / "chief.json").exists(), "nothing was started")

    def test_a_batch_that_would_take_much_memory_is_warned_of(self):
        self.draw(50, 1).to_csv(self.folder / "train-0.csv", index=False)
        self.job_on(data={"columns": [{"name": "x", "from": "city", "hash": 1 << 24}],
                          "label": {"column": "note", "classes": ["line\nend", "a,b", "-"]}},
                    model={"inputs": [{"name": "x"}], "layers": [{"dense": {"units": 3}}]})  # fmt: skip
        _, _, err = self.tool("check", self.job_file)
        self.assertRegex(err, r"warning: .*16777216 numbers, most of them 0, and a batch 2.0 GiB")

    @unittest.skipUnless(DATA, "DOWNPOUR_DATA is not set")
    def test_the_census_sample_trains_from_the_files_as_they_lie_on_disk(self):
        folder = pathlib.Path(DATA) / "adult"
        self.job_file = ROOT / "deploy/jobs/census-deep.yaml"
        summary = self.run_job("--set", f"data.train={folder}/adult.data", "--set", f"data.eval={folder}/adult.test",
                               "--set", "training.epochs=2", "--set", "cluster.workerCount=2")  # fmt: skip
        self.assertEqual(summary["examples"], 2 * 32561)
        told = self.evaluated()
        self.assertEqual(told["examples"], 16281)
        self.assertGreater(told["accuracy"], 0.845, "0.764 have one class")
        self.assertGreater(told["metrics"]["auc"], 0.9)


if __name__ == "__main__":
    unittest.main()
