"""Tasks that are told to stop, by a signal or by the notice that their machine will go: what they hold stays."""

import http.server
import signal
import threading
import unittest

from cluster import ProcessTest, alive, complete, free_port, joined, kill, task_of

ATTEMPTS = 3  # a machine may be so busy that nobody gets done in the time that there is


class FakeGce:
    """A metadata server on loopback, as GCE's machines have one."""

    def __init__(self, test):
        cloud = self
        self.preempted = "FALSE"

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                of = {"preempted": cloud.preempted, "maintenance-event": "NONE"}
                body = of[self.path.removeprefix("/computeMetadata/v1/instance/")].encode()
                self.send_response(200)
                self.send_header("Metadata-Flavor", "Google")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)


class LeavingTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.write_endless_job(checkpoint={"every": "3600s"})  # none is made but for those who leave
        self.at = f"127.0.0.1:{free_port()}"

    def start_chief(self, *flags):
        folders = (f"--job_dir={self.job_dir}", f"--trace_dir={self.job_dir}/trace")
        self.chief = self.start("chief", f"--job={self.job_file}", f"--listen={self.at}", *folders, *flags)
        self.chief.wait_for_line("waits for its tasks at")

    def start_member(self, role, *flags):
        return self.start(role, f"--chief={self.at}", f"--trace_dir={self.job_dir}/trace", *flags)

    def start_cluster(self, *flags):
        """Its first status in which all are at work and something is done that no checkpoint holds."""
        self.start_chief(*flags)
        self.members = [self.start_member(role) for role in ("ps", "ps", "worker", "worker")]
        return self.wait_until(lambda s: complete(s) and self.done(s) > s["checkpoint"].get("leasesCommitted", 0))

    def done(self, status):
        return status["progress"]["leasesCommitted"]

    def tell(self, member):
        member.signal(signal.SIGTERM)
        member.wait_for_line("SIGTERM: leaves once")

    def finish(self, *members):
        for member in members:
            self.assertEqual(member.finish()[0], 143, member.said)

    def cancel(self):
        self.chief.signal(signal.SIGTERM)
        self.finish(self.chief)
        return self.check_cancelled()

    def checkpointed(self):
        """How many leases the newest checkpoint holds."""
        return max((checkpoint.get("leasesCommitted", 0) for checkpoint in self.checkpoints()), default=0)

    def server(self, status, name):
        return next(member for member in self.members if member.pid == task_of(status, name)["pid"])

    def succeed(self, server):
        """Another process takes the place of that one, and serves."""
        self.members.remove(server)
        self.members.append(successor := self.start_member("ps"))
        serves = lambda t: t.get("pid") == successor.pid and t["state"] == "RUNNING" and t["step"] > 0
        return self.wait_until(lambda s: complete(s) and any(serves(t) for t in s["tasks"]))

    def test_a_worker_leaves_with_all_acknowledged(self):
        self.start_cluster()
        stopped = self.members.pop()
        self.wait_until(lambda s: any(t.get("pid") == stopped.pid and t["step"] > 0 for t in s["tasks"]))
        stopped.signal(signal.SIGTERM)
        self.finish(stopped)
        self.assertIn("SIGTERM: leaves once what it computed is acknowledged", stopped.said)
        self.assertEqual(self.cancel()["workersLost"], 0)

    def test_a_server_stays_until_a_checkpoint_holds_what_it_had(self):
        status = self.start_cluster()
        for _ in range(ATTEMPTS):
            done = self.done(status)
            stopped = self.server(status, "ps-1")
            stopped.signal(signal.SIGTERM)
            self.finish(stopped)
            self.assertIn("SIGTERM: leaves once a checkpoint holds what it has", stopped.said)
            status = self.wait_until(lambda s: not alive(s, "ps-1"))
            if in_time := "its chief let it go" in stopped.said:
                break
            status = self.succeed(stopped)
        self.assertTrue(in_time, stopped.said)
        self.assertGreaterEqual(self.checkpointed(), done)
        told = [failure["what"] for failure in status["failures"] if failure["task"] == "ps-1"]
        self.assertRegex(told[-1], "it left: ended by SIGTERM; its chief let it go|to stop .SIGTERM. and let go")
        lost = status["recovery"]["psLost"]
        status = self.succeed(stopped)
        self.assertEqual(status["recovery"]["psLost"], lost)
        self.cancel()

    def test_all_are_told_at_once_and_nothing_is_lost(self):
        for attempt in range(ATTEMPTS):
            self.job_dir = self.folder / f"run-{attempt}"
            done = self.done(self.start_cluster())
            for member in self.members:
                self.tell(member)  # before it can hear of the end from its chief
            self.chief.signal(signal.SIGTERM)
            self.finish(self.chief, *self.members)
            held = self.checkpointed()
            if held >= done:
                break
        self.assertGreaterEqual(held, done)
        self.check_cancelled()
        self.start_cluster("--resume")
        self.wait_until(lambda s: self.done(s) > held)
        self.cancel()

    def test_a_second_signal_ends_a_server_whose_chief_is_away(self):
        status = self.start_cluster()
        self.chief.end()
        stopped = self.server(status, "ps-0")
        self.tell(stopped)
        while stopped.child.poll() is None:
            stopped.signal(signal.SIGTERM)  # what comes at once is the same wish
        self.assertEqual(stopped.finish()[0], -signal.SIGTERM, stopped.said)

    def test_a_server_that_has_no_chief_yet_leaves_at_once(self):
        server = self.start_member("ps")
        server.wait_for_line("waiting for the chief")
        server.signal(signal.SIGTERM)
        self.finish(server)

    def test_tasks_heed_the_notice_that_their_machine_will_be_taken_away(self):
        cloud = FakeGce(self)
        self.start_chief()
        self.members = [self.start_member(role) for role in ("ps", "worker")]
        spot = [self.start_member(role, f"--metadata_server={cloud.url}") for role in ("ps", "worker")]
        pids = lambda s: {task["pid"] for task in s["tasks"] if task.get("step", 0) > 0}
        self.wait_until(lambda s: {member.pid for member in spot} <= pids(s))
        cloud.preempted = "TRUE"
        self.finish(*spot)
        for member in spot:
            self.assertIn("a notice of GCE: it preempts this machine: leaves", member.said)
        self.wait_until(lambda s: joined(s) == 2)
        self.cancel()

    def test_a_run_starts_a_server_again_that_was_told_to_stop(self):
        run = self.start_run()
        status = self.wait_until(complete)
        pid = task_of(status, "ps-1")["pid"]
        kill(pid, signal.SIGTERM)
        again = lambda s: complete(s) and task_of(s, "ps-1")["pid"] != pid and task_of(s, "ps-1")["step"] > 0
        self.wait_until(again)
        run.signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130, run.said)
        self.assertRegex(run.said, rf"ps-1 \(pid {pid}\) ended: exit code 143; started again as pid \d+")
        self.check_cancelled()


if __name__ == "__main__":
    unittest.main()
