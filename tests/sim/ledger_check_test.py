"""Hand-made traces, whole and broken, through tools/dev/ledger_check; with --sim also traces of simulated runs.

    ledger_check_test.py LEDGER_CHECK [--sim SIM]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

# 7 examples in batches of 2: 4 batches, leases of 3 and 1 steps; one epoch, two slices.
PLAN = ["--examples=7", "--batch-size=2", "--lease-batches=3", "--epochs=1", "--slices=2"]
ROUND = 1 << 32 | 4
LEDGER_CHECK = SIM = None


def check(processes, *flags):
    """Exit status and output of the checker over {file name: lines}."""
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in processes.items():
            (pathlib.Path(folder) / f"{name}.trace").write_text("".join(line + "\n" for line in lines))
        done = subprocess.run([LEDGER_CHECK, "--traces", folder, *PLAN, *flags], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


def installed(slice_id, actor=100, epoch="1.1", round_id=0, version=0):
    return f"installed {actor} {round_id} 0 {slice_id} {epoch} {version} 0"


def applied(slice_id, lease, step, version, actor=100, epoch="1.1", worker=200):
    return f"applied {actor} {lease} {step} {slice_id} {epoch} {version} {worker}"


def snapshot(slice_id, version, actor=100, epoch="1.1", round_id=ROUND):
    return f"snapshot {actor} {round_id} 0 {slice_id} {epoch} {version} 0"


def whole_slice(slice_id, worker=200):
    return [
        installed(slice_id),
        applied(slice_id, 0, 1, 1, worker=worker),
        applied(slice_id, 1, 1, 2),
        applied(slice_id, 0, 2, 3),
        applied(slice_id, 0, 3, 4),
    ]


def kept(slice_id, version, actor=101, epoch="2.1", before=1 << 32 | 1):
    return f"kept {actor} {before} 0 {slice_id} {epoch} {version} 0"


class WholeLedgers(unittest.TestCase):
    def test_a_slice_that_went_on_under_another_chief(self):
        before = [installed(1), applied(1, 0, 1, 1), applied(1, 1, 1, 2)]
        after = [kept(1, 2), applied(1, 0, 2, 3, 101, "2.1"), applied(1, 0, 3, 4, 101, "2.1")]
        status, output = check({"ps": whole_slice(0), "other": before + after})
        self.assertEqual(status, 0, output)
        status, output = check({"ps": whole_slice(0), "other": before + [kept(1, 1)] + after[1:]})
        self.assertEqual(status, 1, output)

    def test_every_sample_once(self):
        status, output = check({"ps": whole_slice(0) + whole_slice(1)})
        self.assertEqual(status, 0, output)
        self.assertIn("epoch 0: 7 of 7 samples exactly once on each of 2 slices; 0 torn steps", output)

    def test_a_job_whose_data_grew(self):
        """A second epoch has 3 examples more: 5 batches, leases of 3 and 2 steps."""
        flags = ["--examples=10", "--epochs=2", "--earlier=1:7"]
        lines = [[*whole_slice(s), *(applied(s, 2, i, 4 + i) for i in (1, 2, 3)), applied(s, 3, 1, 8)] for s in (0, 1)]
        status, output = check({"ps": lines[0] + lines[1]}, *flags)
        self.assertEqual(status, 1, output)
        self.assertIn("epoch 1: LOST 2 samples", output)
        for s in (0, 1):
            lines[s].append(applied(s, 3, 2, 9))
        status, output = check({"ps": lines[0] + lines[1]}, *flags)
        self.assertEqual(status, 0, output)
        self.assertIn("epoch 0: 7 of 7 samples", output)
        self.assertIn("epoch 1: 10 of 10 samples", output)

    def test_a_job_that_stopped_early_and_one_cancelled_after_that(self):
        training = {"batchSize": 2, "leaseBatches": 3, "epochs": 9, "consistency": "async"}
        manifest = {"job": json.dumps({"training": training}), "trainExamples": 7, "records": [0, 0]}
        whole = whole_slice(0) + whole_slice(1)
        with tempfile.TemporaryDirectory() as folder:
            job_dir = pathlib.Path(folder)
            round_dir = job_dir / "checkpoints/1-4"
            round_dir.mkdir(parents=True)
            (round_dir / "MANIFEST").write_text(json.dumps(manifest) + "\n")

            def judge(traces, **journal):
                (job_dir / "ps.trace").write_text("".join(line + "\n" for line in traces))
                (job_dir / "journal.a").write_text(json.dumps({"number": 1}) + " crc32c 00000000\n")
                (job_dir / "journal.b").write_text(json.dumps(journal | {"number": 2}) + " crc32c 00000000\n")
                command = [LEDGER_CHECK, "--traces", folder, "--manifest", round_dir / "MANIFEST"]
                done = subprocess.run(command, capture_output=True, text=True)
                return done.returncode, done.stdout + done.stderr

            early = {"earlyStop": {"epochs": 1}}
            status, output = judge(whole, ended="SUCCEEDED")
            self.assertEqual(status, 1, output)
            self.assertIn("epochs 1 to 8: LOST", output)
            status, output = judge(whole, ended="SUCCEEDED", **early)
            self.assertEqual(status, 0, output)
            status, output = judge(whole[:-1], ended="SUCCEEDED", **early)
            self.assertEqual(status, 1, output)
            status, output = judge(whole[:-1], ended="CANCELLED", **early)
            self.assertEqual(status, 0, output)
            beyond = [*whole, applied(0, 2, 1, 5)]
            status, output = judge(beyond, ended="CANCELLED", **early)
            self.assertEqual(status, 1, output)
            self.assertIn("is not in the plan", output)

    def test_a_step_of_several_batches(self):
        lines = [[installed(s), applied(s, 0, 1, 1), applied(s, 0, 2, 2), applied(s, 1, 1, 3)] for s in (0, 1)]
        status, output = check({"ps": lines[0] + lines[1]}, "--push-every=2")
        self.assertEqual(status, 0, output)
        self.assertIn("epoch 0: 7 of 7 samples exactly once", output)
        status, output = check({"ps": lines[0][:2] + lines[0][3:] + lines[1]}, "--push-every=2")
        self.assertEqual(status, 1, output)

    def test_a_torn_step_is_counted_and_accepted(self):
        status, output = check({"ps": whole_slice(0) + whole_slice(1, worker=201)})
        self.assertEqual(status, 0, output)
        self.assertIn("1 torn steps", output)

    def test_a_refused_duplicate_is_counted(self):
        status, output = check({"ps": whole_slice(0) + whole_slice(1) + ["duplicate 100 0 1 0 1.1 4 201"]})
        self.assertEqual(status, 0, output)
        self.assertIn("1 duplicates refused", output)

    def test_a_skipped_push_moves_no_version(self):
        lines = whole_slice(0)
        lines[-1] = "skipped 100 0 3 0 1.1 3 200"
        status, output = check({"ps": lines + whole_slice(1)})
        self.assertEqual(status, 0, output)
        self.assertIn("1 pushes without effect", output)

    def test_a_restore_goes_on_from_its_snapshot(self):
        before = [installed(0), applied(0, 0, 1, 1), snapshot(0, 1), applied(0, 0, 2, 2)]
        after = [installed(0, 101, "2.1", ROUND, 1)] + [
            applied(0, lease, step, version, 101, "2.1")
            for lease, step, version in [(0, 2, 2), (0, 3, 3), (1, 1, 4)]
        ]
        other = whole_slice(1) + [snapshot(1, 4)]
        status, output = check({"a": before + other, "b": after, "chief": [f"durable 0 0 0 0 0.0 {ROUND} 0"]})
        self.assertEqual(status, 0, output)
        self.assertIn("1 pushes computed again after restores, 1 durable", output)

    def test_a_line_cut_off_by_a_kill_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            text = "".join(line + "\n" for line in whole_slice(0) + whole_slice(1)) + "duplicate 100 0"
            (pathlib.Path(folder) / "ps.trace").write_text(text)
            done = subprocess.run([LEDGER_CHECK, "--traces", folder, *PLAN], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_unfinished_job(self):
        lines = whole_slice(0)[:3] + whole_slice(1)
        self.assertEqual(check({"ps": lines})[0], 1)
        status, output = check({"ps": lines}, "--unfinished")
        self.assertEqual(status, 0, output)
        self.assertIn("epoch 0: 3 of 7 samples", output)


class Canaries(unittest.TestCase):
    """Each of these is broken; a checker that lets one pass is blind."""

    def broken(self, processes, words):
        status, output = check(processes)
        self.assertEqual(status, 1, output)
        self.assertIn(words, output)

    def test_a_lost_step(self):
        self.broken({"ps": whole_slice(0)[:-1] + whole_slice(1)}, "LOST 2 samples")

    def test_a_doubled_step(self):
        self.broken({"ps": whole_slice(0) + [applied(0, 0, 3, 5)] + whole_slice(1)}, "DOUBLED")

    def test_one_lost_and_one_doubled(self):
        lines = whole_slice(0)
        lines[3] = applied(0, 0, 1, 3)
        self.broken({"ps": lines + whole_slice(1)}, "DOUBLED")

    def test_a_lease_counted_again_after_it_was_finished(self):
        self.broken({"ps": whole_slice(0) + [applied(0, 1, 1, 5)] + whole_slice(1)}, "DOUBLED")

    def test_a_gap(self):
        lines = whole_slice(0)
        del lines[3]
        lines[3] = applied(0, 0, 3, 3)
        self.broken({"ps": lines + whole_slice(1)}, "LOST what is between step 1")

    def test_an_acknowledgement_without_effect(self):
        acked = "acked 200 0 3 0 1.1 0 0"
        status, output = check({"ps": whole_slice(0)[:-1] + whole_slice(1), "w": [acked]}, "--unfinished")
        self.assertEqual(status, 1, output)
        self.assertIn("acknowledged but never consumed", output)

    def test_a_restore_that_forgets_what_it_had(self):
        before = whole_slice(0) + [snapshot(0, 4)] + whole_slice(1)
        self.broken({"a": before, "b": [installed(0, 101, "2.1", ROUND, 3)]}, "which nobody handed out")

    def test_a_restore_that_counts_again(self):
        before = whole_slice(0) + [snapshot(0, 4)] + whole_slice(1)
        after = [installed(0, 101, "2.1", ROUND, 4), applied(0, 0, 3, 5, 101, "2.1")]
        self.broken({"a": before, "b": after}, "DOUBLED")

    def test_two_lives_in_one_epoch(self):
        self.broken({"a": whole_slice(0) + whole_slice(1), "b": [installed(0, 101)]}, "installed twice")

    def test_a_stranger_who_applies(self):
        stranger = [applied(0, 0, 3, 4, actor=101)]
        self.broken({"a": whole_slice(0)[:-1] + whole_slice(1), "b": stranger}, "process 101 has no slice 0")

    def test_a_durable_checkpoint_without_a_slice(self):
        lines = whole_slice(0) + whole_slice(1) + [snapshot(0, 4)]
        self.broken({"ps": lines, "chief": [f"durable 0 0 0 0 0.0 {ROUND} 0"]}, "lacks slice 1")

    def test_a_step_outside_the_plan(self):
        self.broken({"ps": whole_slice(0) + [applied(0, 2, 1, 5)] + whole_slice(1)}, "not in the plan")

    def test_a_version_that_does_not_count(self):
        lines = whole_slice(0)
        lines[2] = applied(0, 1, 1, 3)
        self.broken({"ps": lines + whole_slice(1)}, "version 3 where 2 follows")

    def test_what_is_no_trace(self):
        self.assertEqual(check({"ps": ["what is this"]})[0], 2)
        self.assertEqual(check({})[0], 2)


class SimulatedRuns(unittest.TestCase):
    def lose_a_push(self, folder):
        """Of the newest epoch, since what an older one had may have been computed again."""
        pushes = [
            (tuple(map(int, line.split()[5].split("."))), file, number)
            for file in sorted(pathlib.Path(folder).glob("ps-*.trace"))
            for number, line in enumerate(file.read_text().splitlines())
            if line.startswith(("applied", "skipped"))
        ]
        _, file, number = max(pushes)
        lines = file.read_text().splitlines(True)
        file.write_text("".join(lines[:number] + lines[number + 1 :]))

    def test_traces_of_whole_runs_are_clean_and_break_when_a_line_is_gone(self):
        if SIM is None:
            self.skipTest("no simulator given")
        for seed in range(1, 13):
            with self.subTest(seed=seed), tempfile.TemporaryDirectory() as folder:
                subprocess.run([SIM, "--seed", str(seed), "--traces", folder], check=True, capture_output=True)
                command = [LEDGER_CHECK, "--traces", folder, f"@{folder}/plan"]
                done = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

                self.lose_a_push(folder)
                self.assertEqual(subprocess.run(command, capture_output=True).returncode, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("ledger_check")
    parser.add_argument("--sim")
    arguments, rest = parser.parse_known_args()
    LEDGER_CHECK, SIM = arguments.ledger_check, arguments.sim
    unittest.main(argv=sys.argv[:1] + rest)
