"""Numbers that travel as bfloat16, steps of several batches and parameters pulled ahead, through real servers."""

import json
import signal
import unittest

from cluster import TRAIN_EXAMPLES, complete, kill, task_of

from plain_training import RATE, PlainTrainingTest

FEW_BYTES = {"wire": "bf16", "leaseBatches": 8, "pushEvery": 3}  # leases of 3, 3 and 2 batches


class NumbersTest(PlainTrainingTest):
    def run_it(self, **training):
        """A job that succeeds, with every sample once on every slice."""
        self.write_job(training=training)
        run = self.start_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        return self.check_success()

    def test_workers_together_train_as_numpy_does(self):
        self.assertLess(self.distance(), 1e-5)
        self.job_dir = self.folder / "twice"
        self.assertGreater(self.distance(optimizer={"learningRate": 2 * RATE}), 0.5, "or this test proves nothing")

    def test_a_rounded_wire_goes_the_same_way(self):
        self.assertLess(self.distance(wire="bf16"), 0.01)
        self.assertIn("pushes and pulls in bf16", self.tool("logs", "--job-dir", self.job_dir)[1])

    def test_a_step_of_several_batches_is_one_with_all_their_examples(self):
        self.assertLess(self.distance(batchSize=100, pushEvery=5, leaseBatches=5), 1e-5)

    def test_in_a_step_of_several_batches_a_shorter_one_counts_less(self):
        alone = {"consistency": "async", "groupSize": None}
        few = {"batchSize": 300, "pushEvery": 4, "leaseBatches": 4}  # the last one of an epoch has 100
        self.assertLess(self.distance(workers=1, **alone, **few), 1e-5)

    def test_a_leases_last_step_may_have_fewer_batches(self):
        summary = self.run_it(**FEW_BYTES)
        batches = -(-TRAIN_EXAMPLES // self.job["training"]["batchSize"])
        steps = sum(-(-min(8, batches - first) // 3) for first in range(0, batches, 8))
        self.assertEqual(summary["steps"], self.job["training"]["epochs"] * steps)

    def test_local_steps_have_effect_once_each(self):
        few = {"leaseBatches": 8, "localSteps": 3, "outer": {"name": "sgd"}}
        kinds = ({}, {"wire": "bf16", "pullAhead": True}, {"consistency": "ssp", "leaseBatches": 3})
        for number, more in enumerate(kinds):
            self.job_dir = self.folder / f"run{number}"
            with self.subTest(**more):
                self.run_it(**few | more)

    def test_local_steps_of_one_worker_that_count_in_full_are_plain_steps(self):
        losses = []
        few = {"localSteps": 3, "outer": {"name": "sgd"}}
        for training in ({}, few, few | {"localSteps": 1}, few | {"wire": "bf16"}):
            self.job_dir = self.folder / f"run{len(losses)}"
            self.write_job(cluster={"workerCount": 1}, training=training | {"epochs": 2, "leaseBatches": 8})
            run = self.start_run()
            self.assertEqual(run.finish()[0], 0, run.said)
            losses.append(self.check_success()["evalLoss"])
        plain, *exact, rounded = losses
        for loss in exact:
            self.assertAlmostEqual(loss, plain, places=4)
        self.assertAlmostEqual(rounded / plain, 1, delta=0.01)

    def test_parameters_that_are_pulled_ahead_lack_the_own_last_push(self):
        alone = {"workerCount": 1}
        self.write_job(cluster=alone, training={"epochs": 4})
        run = self.start_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        self.assertEqual(self.check_success()["staleness"]["max"], 0)

        self.job_dir = self.folder / "ahead"
        self.write_job(cluster=alone, training={"epochs": 12, "pullAhead": True})
        run = self.start_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        summary = self.check_success()
        self.assertEqual(summary["staleness"]["max"], 1)
        self.assertGreater(summary["staleness"]["mean"], 0.5)

    def test_a_job_that_diverges_before_any_heartbeat_can_tell_fails(self):
        self.write_job(training={"epochs": 1, "maxSkippedPushes": 5, "optimizer": {"learningRate": 1e30}})
        run = self.start_run()
        self.assertEqual(run.finish()[0], 1, run.said)
        summary = self.summary()
        self.assertEqual(summary["state"], "FAILED")
        # Whichever is noticed first: the skips of the last round, or the evaluation beside it.
        self.assertRegex(summary["errorMessage"], r"\A(\d+ pushes were skipped, more than training.maxSkippedPushes"
                         r" \(5\) allows: |the loss of the last evaluation is not finite: )"
                         r".* try a lower training.optimizer.learningRate[.,] ")  # fmt: skip

    def test_metrics_are_those_of_the_saved_model_and_end_the_job_in_time(self):
        stop = {"metric": "top3", "patience": 2}
        training = {"epochs": 500, "evaluateEveryEpochs": 1, "metrics": ["top3", "logLoss"], "stopEarly": stop}
        self.write_job(training=training)
        run = self.start_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        summary = self.summary()
        self.assertEqual(summary["state"], "SUCCEEDED")
        self.assertRegex(summary["stoppedEarly"], r"^2 evaluations brought no better top3, .* epochs of 500$")
        self.assertLess(summary["epochs"], 500)
        self.assertEqual(summary["samplesCommitted"], summary["epochs"] * TRAIN_EXAMPLES)
        code, ledger, err = self.tool("ledger", "--job-dir", self.job_dir, "-o", "json")
        self.assertEqual((code, json.loads(ledger)["complete"]), (0, True), err)
        self.check_ledger()

        code, saved, err = self.tool("evaluate", "--job-dir", self.job_dir, "-o", "json")
        self.assertEqual(code, 0, err)
        saved = json.loads(saved)
        for name, value in saved["metrics"].items():
            self.assertAlmostEqual(value, summary["evalMetrics"][name], places=6)
        self.assertAlmostEqual(saved["metrics"]["logLoss"], saved["loss"], places=5)
        self.assertGreaterEqual(saved["metrics"]["top3"], saved["accuracy"])

        code, compared, err = self.tool("experiments", self.folder, "-o", "json")
        self.assertEqual(code, 0, err)
        [job] = json.loads(compared)
        self.assertEqual((job["folder"], job["state"]), ("run", "SUCCEEDED stopped early"))
        self.assertEqual(job["top3"], summary["evalMetrics"]["top3"])

    def test_what_workers_and_servers_held_may_die_with_them(self):
        self.whoever_dies(FEW_BYTES, "training.wire", "fp32")

    def test_local_steps_of_whoever_dies_are_computed_again(self):
        self.whoever_dies({"wire": "bf16", "leaseBatches": 8, "localSteps": 3}, "training.localSteps", "4")

    def whoever_dies(self, training, key, other):
        """Workers and servers, one after the other; then the job is resumed, but not as another plan."""
        self.write_endless_job(training=training | {"batchSize": 50})
        run = self.start_run()
        status = self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)
        for name in ("worker-0", "ps-1", "worker-1", "ps-0"):
            pid, committed = task_of(status, name)["pid"], status["progress"]["leasesCommitted"]
            kill(pid)
            got_on = lambda s: complete(s) and s["progress"]["leasesCommitted"] > committed
            status = self.wait_until(lambda s: task_of(s, name)["pid"] != pid and got_on(s))
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        done = self.check_cancelled()["samplesCommitted"]

        changed = ["--resume", "--set", f"{key}={other}"]
        code, _, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, *changed)
        self.assertEqual(code, 78)
        self.assertIn(f"it differs in {key}", err)
        run = self.start_run("--resume")
        self.wait_until(lambda s: complete(s) and s["progress"]["examplesCommitted"] > done)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.assertGreater(self.check_cancelled()["samplesCommitted"], done)


if __name__ == "__main__":
    unittest.main()
