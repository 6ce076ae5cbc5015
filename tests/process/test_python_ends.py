"""How jobs of the user's own Python code end where they cannot go on: refused, or failed by what the code raises."""

import json
import threading
import unittest

from cluster import JOB, PROGRAMS, TOOL, Process, kill
from own_code import DATA, EVAL_EXAMPLES, EXAMPLES, FIT, OwnCodeTest


class PythonEndsTest(OwnCodeTest):
    def staged(self):
        return {file.name: file.read_bytes() for file in (self.job_dir / "python").iterdir()}

    def test_a_refused_resume_leaves_the_folder_as_it_was(self):
        self.write_package(DATA, FIT)
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 0, run.said)
        before, chief = self.staged(), (self.job_dir / "chief.json").read_bytes()
        whole = sorted(file.name for file in self.job_dir.iterdir())
        resume = [TOOL, "run", self.job_file, "--job-dir", self.job_dir, "--resume", *self.code()]

        def refused(code, says):
            again = Process(self, resume)
            self.assertEqual(again.finish()[0], code, again.said)
            self.assertRegex(again.said, says)
            self.assertNotIn("initializeFrom", again.said)
            self.assertEqual(self.staged(), before)
            self.assertEqual((self.job_dir / "chief.json").read_bytes(), chief)
            self.assertEqual(sorted(file.name for file in self.job_dir.iterdir()), whole)

        code, _, err = self.tool("run", self.job_file, "--job-dir", self.job_dir, "--resume")
        self.assertEqual(code, 78, err)
        self.assertRegex(err, "holds a job of Python code: give --module-name trainer.task again, with the --package-")
        # Another model, which is refused before anything starts, and code that the chief need not lead any more.
        self.write_package(DATA.replace("32", "16"), FIT)
        refused(78, r"run: checkpoint \d+-\d+ belongs to another plan; it differs in "
                r"model \(0.weight \[32, 20\] there, 0.weight \[16, 20\] here\): .*job folder of this plan")
        # Data of another length, which each worker would be refused for.
        self.write_package(DATA.replace(f"draw({EXAMPLES}, 1)", f"draw({EXAMPLES - 100}, 1)"), FIT)
        refused(78, rf"run: checkpoint \d+-\d+ was begun with other data: train of downpour.fit has {EXAMPLES - 100} "
                    rf"examples instead of {EXAMPLES}: bring those of before back")
        self.write_package(DATA, FIT)
        refused(0, "the job of this folder has succeeded")

    def test_a_program_that_never_comes_to_fit_is_ended_by_max_running_time(self):
        says = r"trainer.task has come to no model in the 8 s of scheduling.maxRunningTime: at trainer/task.py:2,"
        self.write_package("import threading\nthreading.Event().wait()\n", scheduling={"maxRunningTime": "8s"})
        self.assertRegex(self.refused(124), says)
        code, _, err = self.tool("check", self.job_file, *self.code())
        self.assertEqual(code, 124, err)
        self.assertRegex(err, says)

    def test_a_program_that_lets_no_other_thread_run_is_ended_too(self):
        self.write_package("import re\nre.match('(a+)+$', 'a' * 80 + 'b')\n", scheduling={"maxRunningTime": "6s"})
        said = self.refused(124)
        self.assertRegex(said, r"(?s)task.py\", line 2 in .*in the 6 s of scheduling.maxRunningTime: the calls above")

    def test_a_step_that_hangs_is_named_once_the_time_is_over(self):
        hangs = """
        import os, threading
        def hangs(output, target):
            if '"type":"worker"' in os.environ["TF_CONFIG"].replace(" ", ""):
                threading.Event().wait()
            return cross_entropy(output, target)
        """
        limit = {"maxRunningTime": "40s"}
        self.write_package(DATA, hangs, FIT.replace("loss=cross_entropy", "loss=hangs"), scheduling=limit)
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 124, run.said)
        self.assertRegex(self.summary()["errorMessage"],
                         r"maxRunningTime, counted from each start; worker-\d waits for its Python code to .*: the "
                         r"Python code has been in one call for \d+ s, at trainer/task.py:\d+, in hangs: thr")

    def test_status_says_that_the_program_has_not_come_to_fit(self):
        begun = self.folder / "begun"
        self.write_package("import pathlib, sys, threading\n"
                           "pathlib.Path(sys.argv[1]).touch()\nthreading.Event().wait()")  # fmt: skip
        words = [TOOL, "run", self.job_file, "--job-dir", self.job_dir, *self.code("--", str(begun))]
        Process(self, words)
        while not begun.exists():
            threading.Event().wait(0.05)
        code, _, err = self.tool("status", "--job-dir", self.job_dir)
        self.assertEqual(code, 69, err)
        self.assertIn("is being started: its Python code has not called downpour.fit yet", err)
        second = Process(self, words)
        self.assertEqual(second.finish()[0], 1)
        self.assertIn("another downpour run is at work", second.said)

    def test_a_program_that_comes_to_no_model_leaves_no_folder(self):
        self.write_package("raise ValueError('no')")
        self.refused(1)
        self.assertFalse(self.job_dir.exists())

    def test_check_says_what_a_python_job_is_evaluated_on(self):
        self.write_package(DATA, FIT)
        code, out, err = self.tool("check", self.job_file, *self.code())
        self.assertEqual(code, 0, err)
        self.assertRegex(out, rf"Evaluation +on {EVAL_EXAMPLES} examples, ")
        self.write_package(DATA, FIT.replace("eval=evaluation, ", "").replace(' metrics={"top2": top2},', ""))
        code, out, err = self.tool("check", self.job_file, *self.code())
        self.assertEqual(code, 0, err)
        self.assertRegex(out, "Evaluation +none: downpour.fit is given no eval\n")

    def test_a_metric_that_the_code_does_not_compute_is_refused_before_anything_starts(self):
        self.write_package(DATA, FIT, training={"metrics": ["top2", "auc"]})
        says = r"job.yaml:1: training.metrics: the Python code computes no metric auc, only top2; leave it out, or give"
        code, _, err = self.tool("check", self.job_file, *self.code())
        self.assertEqual(code, 78, err)
        self.assertRegex(err, says)
        self.assertRegex(self.refused(78), says)

    def test_a_model_without_an_accuracy_ends_with_its_loss(self):
        self.write_package(DATA, """
        square = torch.nn.functional.mse_loss
        inputs = train.tensors[0]
        model = torch.nn.Linear(20, 20)
        downpour.fit(model, train=(inputs, inputs), eval=(inputs, inputs), loss=square, epochs=1, batch_size=50)
        """)
        run = self.start_python_run()
        code, out = run.finish()
        self.assertEqual(code, 0, run.said)
        self.assertRegex(out, r"\nLoss: +\d+\.\d+ on the eval data\n")
        logs = self.tool("logs", "--job-dir", self.job_dir)[1]
        self.assertRegex(logs, "initial values: 2 variables from ")
        self.assertNotIn("model.initializeFrom", logs)

    def test_the_folder_of_another_job_is_named_as_such(self):
        """One of a job of layers, which has no copy of initial values."""
        self.write_package(DATA, FIT)
        other = self.folder / "other.yaml"
        other.write_text(json.dumps(JOB | {"checkpoint": {"every": "200ms"}}))
        code, _, err = self.tool("run", other, "--job-dir", self.job_dir)
        self.assertEqual(code, 0, err)
        resume = Process(self, [TOOL, "run", self.job_file, "--job-dir", self.job_dir, "--resume", *self.code()])
        self.assertEqual(resume.finish()[0], 78, resume.said)
        differs = r"belongs to another plan, of the job small; it differs in .*model \(dense_0/kernel .*: set these"
        self.assertRegex(resume.said, differs)
        self.assertFalse((self.job_dir / "python").exists())
        # A chief that is started by hand says the same.
        staged = self.folder / "staged"
        code, out, err = self.tool("stage", self.job_file, "--job-dir", staged, *self.code())
        self.assertEqual(code, 0, err)
        (self.job_dir / "python").symlink_to(staged / "python")
        chief = Process(self, [PROGRAMS["chief"], f"--job={out.strip()}", f"--job_dir={self.job_dir}", "--resume"])
        self.assertEqual(chief.finish()[0], 78, chief.said)
        self.assertRegex(chief.said, "belongs to another plan, of the job small; it differs in ")

    def test_code_that_is_killed_before_it_has_a_model_is_started_again(self):
        pids, enough = self.folder / "pids", self.folder / "enough"
        self.write_package(DATA, f"""
        import json, os, threading
        if json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "worker":
            with open({str(pids)!r}, "a") as file:
                file.write(f"{{os.getpid()}}\\n")
            while not os.path.exists({str(enough)!r}):
                threading.Event().wait(0.05)
        """, FIT, cluster={"workerCount": 1, "parameterServerCount": 1})
        run = self.start_python_run()
        started = lambda: pids.read_text().splitlines() if pids.exists() else []
        for count in range(3):
            self.wait_until(lambda _: len(started()) > count)
            kill(int(started()[count]))
        enough.touch()
        self.assertEqual(run.finish()[0], 0, run.said)
        self.assertEqual(self.summary()["samplesCommitted"], 4 * EXAMPLES)
        self.assertIn("signal 9 (SIGKILL) before it called downpour.fit", json.dumps(self.summary()["failures"]))

    def test_a_loop_that_is_left_ends_the_job_at_once_and_names_its_line(self):
        self.write_package(DATA, """
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        steps = downpour.steps(train, batch_size=16, epochs=100, optimizer=optimizer)
        for number, (inputs, labels) in enumerate(steps):
            loss = cross_entropy(model(inputs), labels)
            loss.backward()
            downpour.push(model, loss=loss)
            if number == 5:
                break
        """)
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 1, run.said)
        told = (r"^the job ended at worker-\d: the Python code: the module trainer.task ended before its "
                r"job did: only training.epochs, training.stopEarly and cancel end a job, at trainer/task.py:\d+, in "
                r"<module>: break")  # fmt: skip
        self.assertRegex(self.summary()["errorMessage"], told)
        self.assertLessEqual(self.summary()["workersLost"], 2, "each once")

    def test_a_loop_that_breaks_its_rules_behind_its_first_batch_ends_the_job_at_once(self):
        self.write_package(DATA, """
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for inputs, labels in downpour.steps(train, batch_size=16, epochs=100, optimizer=optimizer):
            loss = cross_entropy(model(inputs), labels)
            loss.backward()
            downpour.push(model, loss=loss)
            optimizer.step()
        """)
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 1, run.said)
        told = (r"the Python code: the loop changed the parameters: leave optimizer.step\(\) out, push is in its "
                r"place, at trainer/task.py:\d+, in <module>: optimizer.step\(\)")  # fmt: skip
        self.assertRegex(self.summary()["errorMessage"], rf"^the job ended at worker-\d: {told}")
        self.assertRegex(self.summary()["failures"][0]["what"], f"^it left: {told}")
        self.assertLessEqual(self.summary()["workersLost"], 2, "each once")

    def test_code_that_fails_after_some_steps_in_each_life_ends_the_job(self):
        self.write_package(DATA, """
        calls = 0
        def loss(output, target):
            global calls
            calls += 1
            if calls > 25:
                raise MemoryError("no room for the 26th")
            return cross_entropy(output, target)
        downpour.fit(model, train=train, loss=loss, optimizer={"name": "sgd"}, epochs=10**6, batch_size=16)
        """, training={"leaseBatches": 4})
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 1, run.said)
        summary = self.summary()
        told = r"the Python code: MemoryError: no room for the 26th, at trainer/task.py:\d+, in loss: raise MemoryError"
        self.assertRegex(summary["errorMessage"], r"^the job.s own code failed 6 times within an hour at 2 of 2 "
                         rf"workers, the last time at worker-\d: step \d+ of lease \d+ \(examples [\d, ]+\): {told}")
        self.assertRegex(summary["failures"][0]["what"], rf"^it left: step .*: {told}")
        self.assertGreater(summary["samplesCommitted"], 0)

    def test_code_that_raises_at_one_example_ends_the_job_though_others_go_on(self):
        self.write_package(DATA, """
        class Bad(torch.utils.data.Dataset):
            def __len__(self): return len(train)
            def __getitem__(self, i):
                if i == 777: raise ValueError("example 777 cannot be read")
                return train[i]
        downpour.fit(model, train=Bad(), loss=cross_entropy, optimizer={"name": "sgd"}, epochs=10**6, batch_size=16)
        """)
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 1, run.said)
        summary = self.summary()
        self.assertEqual(summary["state"], "FAILED")
        told = (r"the job's own code failed \d+ times in lease \d+, the last time at worker-\d: step \d+ of lease \d+ "
                r"\(examples [\d, ]*\b777\b[^)]*\): the Python code: ValueError: example 777 cannot be read, at "
                r"trainer/task.py:\d+, in __getitem__")  # fmt: skip
        self.assertRegex(summary["errorMessage"], told)
        self.assertGreater(summary["samplesCommitted"], 0, "other leases were committed meanwhile")


    def test_an_example_of_another_shape_ends_the_job_as_well(self):
        self.write_package(DATA, """
        class Bad(torch.utils.data.Dataset):
            def __len__(self): return len(train)
            def __getitem__(self, i): return (train[i][0][:3] if i == 777 else train[i][0], train[i][1])
        downpour.fit(model, train=Bad(), loss=cross_entropy, optimizer={"name": "sgd"}, epochs=10**6, batch_size=16)
        """)
        run = self.start_python_run()
        self.assertEqual(run.finish()[0], 1, run.said)
        self.assertRegex(self.summary()["errorMessage"], r"failed \d+ times in lease \d+, .* cannot be stacked")


if __name__ == "__main__":
    unittest.main()
