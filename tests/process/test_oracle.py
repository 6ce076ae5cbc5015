"""Kills under a workload of integers: the state is the exact sum of what its leases' batches pushed, each once."""

import copy
import shlex
import signal
import sys
import unittest

import faults

from cluster import BUILD, ROOT, ProcessTest, complete, kill, merged, task_of

sys.path.append(str(ROOT / "tools/dev"))
import oracle_check

# Each push adds its whole gradient, however stale it is.
PLAIN_SUMS = {"optimizer": {"name": "sgd", "learningRate": 1}, "staleness": {"method": "none"}}


def wrap(program, around):
    """Puts a script in the program's place that starts it in such a way."""
    command = shlex.join(around([str(program.resolve())]))
    program.unlink()
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)


class OracleTest(ProcessTest):
    def test_the_state_is_exact_whoever_is_killed(self):
        layers = [{"dense": {"units": 1}}, {"dense": {"units": 4000}}]
        self.write_endless_job(model={"layers": layers}, training=PLAIN_SUMS)
        run = self.start_run(tool=oracle_check.programs(BUILD, self.folder / "programs"))
        status = self.wait_until(lambda s: complete(s) and s["checkpoint"].get("leasesCommitted", 0) > 0)
        for name in ("ps-1", "worker-0", "chief", "ps-0"):
            pid = self.pid_of(status, name)
            kill(pid)
            before = status["progress"]["leasesCommitted"]
            status = self.wait_until(lambda s: complete(s) and self.pid_of(s, name) != pid
                                     and s["progress"]["leasesCommitted"] > before)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.check_cancelled()
        self.check_exact(self.job_dir / self.summary()["checkpoint"])

    def test_a_push_that_crashes_its_ps_is_left_out_after_the_second_time(self):
        layers = [{"dense": {"units": 1}}, {"dense": {"units": 4000}}]
        self.write_job(model={"layers": layers}, training=merged(PLAIN_SUMS, {"optimizer": {"learningRate": 2}}))
        tool = oracle_check.programs(BUILD, self.folder / "programs")
        wrap(tool.parent / "downpour-ps", faults.trapping)
        wrap(tool.parent / "downpour-worker", lambda command: ["env", "ORACLE_POISON=3 2", *command])
        run = self.start_run(tool=tool)
        self.assertEqual(run.finish()[0], 0, run.said)
        self.check_ledger()
        self.assertEqual(self.summary()["pushesSkipped"], 1)
        notes = [line for file in (self.job_dir / "logs").glob("*.crashes") for line in file.read_text().split("\n")]
        notes = [line for line in notes if line]
        self.assertEqual([line.split()[1:3] for line in notes], [["3", "2"]] * 2, notes)
        logs = "".join(log.read_text() for log in (self.job_dir / "logs").glob("ps-*.log"))
        self.assertIn("left out a push at which this server crashed before, and crashed again", logs)
        self.assertEqual(logs.count("*** SIGFPE "), 2, logs)

    @staticmethod
    def pid_of(status, name):
        return (status["chief"] if name == "chief" else task_of(status, name)).get("pid")

    def check_exact(self, folder):
        manifest = oracle_check.read_manifest(folder / "MANIFEST")
        job, plan = oracle_check.job_of(manifest), oracle_check.Plan.of_manifest(manifest)
        slices = oracle_check.read_slices(folder, manifest, job)
        findings, found, wanted = oracle_check.compare(job["seed"], plan, slices)
        self.assertEqual((findings, found), ([], wanted))
        self.assertEqual(oracle_check.check(folder), 0)

        # The canaries: a batch that is left out, one that counts twice, and one for the other.
        number = next(s.number for s in slices if s.variable == "dense_1/bias")
        (begin, end), *_ = slices[number].finished
        for finished in ([(begin, end + 1)], [(begin + 1, end)], [(begin + 1, end + 1)]):
            doctored = copy.deepcopy(slices)
            doctored[number].finished[0:1] = finished
            findings, found, wanted = oracle_check.compare(job["seed"], plan, doctored)
            self.assertEqual(len(findings), 1, finished)
            self.assertIn(f"slice {number} (dense_1/bias): ", findings[0])
            self.assertNotEqual(found, wanted, finished)


if __name__ == "__main__":
    unittest.main()
