"""The roles started one by one, in any order, and what they say of whatever is wrong."""

import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import struct
import unittest

import zmtp
from cluster import ProcessTest, alive, complete, draw_digits, free_port, joined, task_of


def address_space(pid):
    """In bytes."""
    return int(re.search(r"VmSize:\s*(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


class ByHandTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.chief_at = f"--chief=127.0.0.1:{self.port}"

    def start_chief(self, *flags):
        chief = self.start(
            "chief", f"--job={self.job_file}", f"--listen=127.0.0.1:{self.port}", f"--job_dir={self.job_dir}", *flags
        )
        chief.wait_for_line("waits for its tasks at")
        return chief

    def start_member(self, role, *flags):
        return self.start(role, self.chief_at, f"--trace_dir={self.job_dir}/trace", *flags)

    def start_cluster(self):
        chief = self.start_chief(f"--trace_dir={self.job_dir}/trace")
        members = [self.start_member(role) for role in ("ps", "ps", "worker", "worker")]
        self.wait_until(complete)
        return [chief, *members]

    def finish(self, processes):
        for process in processes:
            self.assertEqual(process.finish()[0], 0, (process.command, process.said))

    def cancel(self, chief, *members):
        """The summary of a job that was asked to end."""
        chief.signal(signal.SIGTERM)
        self.assertEqual(chief.finish()[0], 143, chief.said)
        for member in members:
            self.assertEqual(member.finish()[0], 0, (member.command, member.said))
        return self.check_cancelled()

    def test_whose_chief_does_not_come_back_waits_no_longer_than_the_job_says(self):
        self.write_endless_job(timing={"chiefWait": "5s"})  # longer than a busy machine lets a living chief wait
        chief, *members = self.start_cluster()
        chief.signal(signal.SIGKILL)
        for member in members:
            self.assertEqual(member.finish()[0], 69, member.said)
            self.assertRegex(member.said, rf"the chief at 127.0.0.1:{self.port} has not answered for \d+ s; "
                             "if its job goes on, start")  # fmt: skip

    def test_in_the_wrong_order(self):
        self.write_job()
        members = [self.start_member(role) for role in ("worker", "worker", "ps")]
        for member in members:
            member.wait_for_line(f"waiting for the chief at 127.0.0.1:{self.port}")
        chief = self.start_chief(f"--trace_dir={self.job_dir}/trace")
        self.wait_until(lambda s: joined(s) == 3)
        self.finish([self.start_member("ps"), chief, *members])
        self.check_success()

    def test_whom_nobody_answers_says_why_with_the_remedy(self):
        nowhere = self.start_member("worker")
        nowhere.wait_for_line(f"the chief at 127.0.0.1:{self.port} cannot be reached: connection refused; "
                              "start the chief, or")  # fmt: skip
        misspelt = self.start("ps", "--chief=no-such-host.invalid:7000")
        misspelt.wait_for_line("the chief at no-such-host.invalid:7000 cannot be reached: .*; "
                               "correct the name, or add it")  # fmt: skip

    def test_a_chief_that_is_killed_and_started_again(self):
        self.write_endless_job()
        chief, *members = self.start_cluster()
        before = self.wait_until(lambda s: s["progress"]["leasesCommitted"] > 0 and s["checkpoint"].get("round"))
        second = self.start("chief", f"--job={self.job_file}", f"--job_dir={self.job_dir}")
        self.assertEqual(second.finish()[0], 1)
        self.assertIn("belongs to a running chief", second.said)

        chief.end()
        code, _, err = self.tool("status", "--job-dir", self.job_dir)
        self.assertEqual(code, 69)
        self.assertRegex(err, rf"process {chief.pid} on .*, term \d+\) has gone and did not say how the job ended")
        self.assertRegex(err, r"The last checkpoint is checkpoints/\d+-\d+ with \d+ leases?: "
                         r"go on from it with \S*downpour-chief .*--resume")  # fmt: skip
        chief = self.start_chief(f"--trace_dir={self.job_dir}/trace")
        leases = before["progress"]["leasesCommitted"]
        got_on = lambda s: s["progress"]["leasesCommitted"] > leases and complete(s)
        self.wait_until(lambda s: s["chief"]["pid"] == chief.pid and got_on(s))
        summary = self.cancel(chief, *members)
        self.assertEqual((summary["chiefRestarts"], summary["psLost"], summary["workersLost"]), (1, 0, 0))
        self.assertEqual(summary["batchesRecomputed"], 0)

    def test_a_chief_without_resume_sends_no_task_away_that_waits_for_it(self):
        self.write_endless_job()
        chief, *members = self.start_cluster()
        self.wait_until(lambda s: s["progress"]["leasesCommitted"] > 0 and s["checkpoint"].get("round"))
        self.cancel(chief, *members)
        members = [self.start_member(role) for role in ("ps", "ps", "worker", "worker")]
        for member in members:
            member.wait_for_line(f"waiting for the chief at 127.0.0.1:{self.port}")
        refused = self.start(
            "chief", f"--job={self.job_file}", f"--listen=127.0.0.1:{self.port}", f"--job_dir={self.job_dir}"
        )
        self.assertEqual(refused.finish()[0], 1, refused.said)
        self.assertRegex(refused.said, "already holds checkpoints: add --resume to go on from them")
        self.assertEqual([member.child.poll() for member in members], [None] * 4, [member.said for member in members])
        chief = self.start_chief("--resume", f"--trace_dir={self.job_dir}/trace")
        status = self.wait_until(complete)
        self.assertEqual({task["pid"] for task in status["tasks"]}, {member.pid for member in members})
        self.cancel(chief, *members)

    def test_a_cluster_that_is_not_complete_says_who_is_missing(self):
        self.write_job()
        self.start_chief()
        self.start("ps", self.chief_at)
        status = self.wait_until(lambda s: alive(s, "ps-0"))
        self.assertEqual(status["state"], "QUEUED")
        self.assertIn({"task": "ps-1", "why": "has not joined yet"}, status["pending"])
        code, out, _ = self.tool("status", "--job-dir", self.job_dir)
        self.assertEqual(code, 0)
        self.assertIn("ps-1 has not joined yet", out)
        self.assertIn(f"downpour-worker --chief=127.0.0.1:{self.port}", out)

    def test_the_doctor_of_a_task_that_runs_finds_its_own_port_taken_by_it(self):
        self.write_job()
        at, other = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.start_chief()
        ps = self.start("ps", self.chief_at, f"--listen={at}")
        self.wait_until(lambda s: alive(s, "ps-0"))
        doctor = lambda role, chief: self.tool("doctor", "--cluster=none", "--role", role, "--listen", at, "--chief",
                                               chief)[1]  # fmt: skip
        out = doctor("ps", f"127.0.0.1:{self.port}")
        self.assertRegex(out, rf"ok +listen +downpour-ps, process {ps.pid}, listens on {at} already")
        for role, chief in (("chief", f"127.0.0.1:{self.port}"), ("ps", other)):
            out = doctor(role, chief)
            self.assertRegex(out, rf"PROBLEM +listen +cannot listen on {at}: .*, by downpour-ps, process {ps.pid}")

    def test_a_port_in_use(self):
        self.write_job()
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.port))
            other.listen()
            second = self.start(
                "chief", f"--job={self.job_file}", f"--listen=127.0.0.1:{self.port}", f"--job_dir={self.folder}/other"
            )
            self.assertEqual(second.finish()[0], 1)
        self.assertIn(f"127.0.0.1:{self.port}", second.said)
        self.assertIn("in use", second.said)

    def test_a_second_task_of_the_same_name_and_one_too_many(self):
        self.write_endless_job()
        self.start_cluster()
        twin = self.start("worker", self.chief_at, "--index=0")
        twin.wait_for_line("the name worker-0 is held by process")
        extra = self.start("worker", self.chief_at, "--index=7")
        self.assertEqual(extra.finish()[0], 1)
        self.assertIn("there is no worker-7", extra.said)
        status = self.wait_until(lambda s: True)
        self.assertTrue(alive(status, "worker-0"))
        self.assertNotEqual(task_of(status, "worker-0")["pid"], twin.pid)

    def test_a_worker_whose_data_differs_is_refused_by_name(self):
        self.write_endless_job()
        self.start_chief()
        for _ in range(2):
            self.start("ps", self.chief_at)
        self.start("worker", self.chief_at, "--index=1")
        self.wait_until(lambda s: task_of(s, "worker-1").get("step", 0) > 0)
        # As on another host, where the same path holds something else; the first worker keeps what it opened.
        other = self.folder / "other"
        other.mkdir()
        draw_digits(other, "train", count=1000, seed=3)
        for part in ("images", "labels"):
            shutil.move(other / f"train-{part}", self.folder / f"train-{part}")
        worker = self.start("worker", self.chief_at, "--index=0")
        self.assertEqual(worker.finish()[0], 1)
        self.assertIn("worker-0 has other data than worker-1", worker.said)
        self.assertRegex(worker.said, r"the bytes of data.train \(\S*train-images, \S*train-labels\) or data.eval")
        code, out, _ = self.tool("status", "--job-dir", self.job_dir)
        self.assertEqual(code, 1)
        self.assertRegex(out, "Pending: +worker-0 has other data than worker-1")

    def test_a_server_whose_memory_runs_out_says_so_and_another_takes_its_place(self):
        wide = [{"dense": {"units": 200_000}}, {"dense": {"units": 10}}]  # 115 MiB of values and momentum
        self.write_endless_job(cluster={"parameterServerCount": 1}, model={"layers": wide})
        poor = self.start_member("ps")
        poor.wait_for_line("waiting for the chief")  # so it holds nothing of the job yet
        room = address_space(poor.pid) + (64 << 20)
        resource.prlimit(poor.pid, resource.RLIMIT_AS, (room, room))
        chief = self.start_chief(f"--trace_dir={self.job_dir}/trace")
        poor.wait_for_line("joined as ps-0")
        workers = [self.start_member("worker") for _ in range(2)]
        self.assertEqual(poor.finish()[0], -signal.SIGABRT, poor.said)
        self.assertIn("out of memory: give this process more", poor.said)
        rich = self.start_member("ps")
        self.wait_until(lambda s: complete(s) and s["progress"]["leasesCommitted"] > 0)
        self.assertEqual(self.cancel(chief, rich, *workers)["psLost"], 1)

    def bad_data(self, name, data):
        """What a job says that finds these bytes in one of its files."""
        (self.folder / name).write_bytes(data)
        self.write_job(cluster={"workerCount": 1})
        chief = self.start_chief()
        members = [self.start("ps", self.chief_at) for _ in range(2)]
        self.wait_until(lambda s: joined(s) == 2)  # the job ends as soon as the worker looks
        members.append(self.start("worker", self.chief_at))
        self.assertEqual(chief.finish()[0], 1)
        error = self.summary()["errorMessage"]
        self.assertEqual(self.summary()["state"], "FAILED")
        self.assertIn(str(self.folder / name), error)
        for member in members:
            self.assertEqual(member.finish()[0], 1, member.said)
        return error

    def test_a_data_file_cut_short_is_named_with_the_offset(self):
        whole = (self.folder / "train-images").read_bytes()
        self.assertIn(f"truncated at byte {len(whole) - 5}", self.bad_data("train-images", whole[:-5]))

    def test_a_data_file_of_another_kind_is_named_with_the_offset(self):
        whole = (self.folder / "eval-labels").read_bytes()
        error = self.bad_data("eval-labels", struct.pack(">I", 0xDEADBEEF) + whole[4:])
        self.assertIn("wrong magic 0xdeadbeef at byte 0", error)

    def test_a_server_that_lacks_the_folder_it_is_to_write_to(self):
        self.write_job(checkpoint={"via": "shared"})
        chief = self.start_chief(f"--trace_dir={self.job_dir}/trace")
        server = self.start("ps", self.chief_at)
        self.assertEqual(server.finish()[0], 1)
        self.assertIn("give it --job_dir=DIR", server.said)
        told = lambda s: any("give it --job_dir=DIR" in failure["what"] for failure in s["failures"])
        self.assertEqual(self.wait_until(told)["state"], "QUEUED")
        folder = f"--job_dir={self.job_dir}"
        members = [self.start_member("ps", folder), self.start_member("worker"), self.start_member("worker")]
        self.wait_until(lambda s: joined(s) == 3)
        self.finish([self.start_member("ps", folder), chief, *members])
        self.check_success()

    def test_a_chief_whose_command_line_is_wrong_leaves_its_folder_alone(self):
        self.write_job()
        flags = [f"--job={self.job_file}", f"--job_dir={self.job_dir}"]
        for wrong in ("--metadata_server=cloud", "--listen=nowhere", "--give_up=1", f"--keys={self.folder}/none"):
            chief = self.start("chief", *flags, wrong)
            self.assertEqual(chief.finish()[0], 2, chief.said)
            self.assertIn(wrong.partition("=")[2], chief.said)
            self.assertFalse(self.job_dir.exists(), wrong)

    def test_nobody_there(self):
        code, _, err = self.tool("status", "--chief", f"127.0.0.1:{self.port}")
        self.assertEqual(code, 69)
        self.assertIn(f"cannot reach the chief at 127.0.0.1:{self.port} (connection refused). Is it running?", err)

    def test_junk_is_refused_and_counted_and_nobody_dies(self):
        self.write_endless_job()
        ps_ports = [free_port(), free_port()]
        chief = self.start_chief(f"--trace_dir={self.job_dir}/trace")
        members = [self.start_member("ps", f"--listen=127.0.0.1:{port}") for port in ps_ports]
        members += [self.start_member("worker") for _ in range(2)]
        self.wait_until(complete)

        rng = random.Random(5)
        for port in (self.port, *ps_ports):
            zmtp.speak_raw(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            zmtp.speak_raw(port, rng.randbytes(5000))
            zmtp.speak_raw(port, zmtp.GREETING[:20])
            zmtp.speak_raw(port, zmtp.GREETING + zmtp.ready() + rng.randbytes(1000))
            zmtp.speak_raw(port, zmtp.GREETING + zmtp.ready() + struct.pack(">BQ", zmtp.LONG, 1 << 40))
            zmtp.speak(port, [b""], [rng.randbytes(10)], [rng.randbytes(1000)], [b"", b"", b""])
            junk = [[rng.randbytes(rng.randrange(300)) for _ in range(rng.randrange(1, 5))] for _ in range(50)]
            zmtp.speak(port, *junk)

        doors = lambda s: [s["chief"], task_of(s, "ps-0"), task_of(s, "ps-1")]
        self.wait_until(lambda s: all(door["rejected"] >= 50 for door in doors(s)))
        self.cancel(chief, *members)


if __name__ == "__main__":
    unittest.main()
