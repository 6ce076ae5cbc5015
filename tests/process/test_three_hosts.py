"""Three hosts without DNS and a client on a fourth, as a new user has them: bring-up as docs/DEPLOY.md says, links
that are cut, processes that are killed, and a job whose end is heard elsewhere."""

import re
import signal
import unittest

import hosts_in_namespaces
from cluster import PROGRAMS, TOOL, ProcessTest, alive, complete, task_of

PORT = 7000


@unittest.skipIf(hosts_in_namespaces.why_not(), hosts_in_namespaces.why_not())
class ThreeHostsTest(ProcessTest):
    """The chief is on h0, servers on h1, workers on h2. Who asks by the job folder does so on the chief's host."""

    def setUp(self):
        super().setUp()
        self.network = hosts_in_namespaces.Network(self)
        self.h0, self.h1, self.h2, self.client = (self.network.add() for _ in range(4))
        self.keys = self.folder / "keys"
        self.assertEqual(self.tool("keys", "new", "--out", self.keys)[0], 0)
        self.key_flags = ("--keys", self.keys)
        self.inside = self.h0.inside.enter()
        self.chief_at = f"{self.h0.address}:{PORT}"

    def start_on(self, host, role, *flags):
        common = [f"--keys={self.keys}", f"--trace_dir={self.job_dir}/trace"]
        return host.start(PROGRAMS[role], *common, *flags)

    def start_chief(self):
        flags = [f"--job={self.job_file}", f"--job_dir={self.job_dir}", f"--listen=0.0.0.0:{PORT}"]
        chief = self.start_on(self.h0, "chief", *flags)
        chief.wait_for_line("waits for its tasks at")
        return chief

    def start_ps(self, host):
        return self.start_on(host, "ps", f"--chief={self.chief_at}", "--listen=0.0.0.0:0")

    def start_worker(self, host):
        return self.start_on(host, "worker", f"--chief={self.chief_at}")

    def start_cluster(self):
        chief = self.start_chief()
        workers = [self.start_worker(self.h2) for _ in range(2)]
        servers = [self.start_ps(self.h1) for _ in range(2)]
        return chief, servers, workers

    def watch(self):
        """On the client's host, once it has seen the job."""
        watch = self.client.start(TOOL, "watch", "--keys", self.keys, "--chief", self.chief_at, "--interval", "0.2")
        next(iter(watch.out))
        return watch

    def status(self):
        """(exit code, what is printed) on the client's host."""
        code, out, err = self.client.run(TOOL, "status", "--keys", self.keys, "--chief", self.chief_at)
        return code, out + err

    def log_of(self, task):
        return self.tool("logs", task, "--job-dir", self.job_dir)[1]

    def steps(self, status):
        return sum(task.get("step", 0) for task in status.get("tasks", []) if task["role"] == "worker")

    def wait_for_steps(self, more=20):
        """Until workers have made so many more steps."""
        before = None

        def got_on(status):
            nonlocal before
            if not complete(status):
                return False
            before = self.steps(status) if before is None else before
            return self.steps(status) >= before + more

        return self.wait_until(got_on)

    def cancel(self, chief):
        chief.signal(signal.SIGTERM)
        self.assertEqual(chief.finish()[0], 143, chief.said)
        self.check_cancelled()

    def test_the_lines_of_deploy_md_bring_a_cluster_up_and_its_end_is_heard_elsewhere(self):
        self.write_job()
        chief = self.start_chief()
        workers = [self.start_worker(self.h2) for _ in range(2)]
        first = self.start_ps(self.h0)  # beside its chief, whose address means this very host
        status = self.wait_until(lambda s: alive(s, "ps-0"))
        self.assertRegex(task_of(status, "ps-0")["endpoint"], rf"^{self.h0.address}:\d+$")
        self.assertEqual(task_of(status, "ps-0")["host"], "h0")
        self.assertEqual(status["chief"]["endpoint"], self.chief_at)
        watch = self.watch()
        servers = [first, self.start_ps(self.h1)]
        self.assertEqual(watch.finish()[0], 0, watch.said)
        for process in [chief, *servers, *workers]:
            self.assertEqual(process.finish()[0], 0, (process.command, process.said))
        self.check_success()

    def test_who_watches_elsewhere_hears_that_the_time_was_over(self):
        self.write_endless_job(scheduling={"maxRunningTime": "2s"})
        chief = self.start_chief()
        for _ in range(2):
            self.start_worker(self.h2)
        watch = self.watch()
        for _ in range(2):
            self.start_ps(self.h1)
        self.assertEqual(watch.finish()[0], 124, watch.said)
        self.assertEqual(chief.finish()[0], 124, chief.said)
        self.check_cancelled()

    def test_a_cluster_in_which_nothing_moves_says_so_and_why(self):
        self.write_endless_job()
        chief, _, _ = self.start_cluster()
        self.wait_for_steps()
        while self.status()[0] != 0:  # somebody has not joined yet
            pass
        self.h2.inside.ip(f"route add unreachable {self.h1.address}")
        # The chief may see that nothing moves before a worker's kernel has given up the connection, and says why.
        stalled = self.wait_until(lambda s: "cannot be reached" in s["stalled"])
        self.assertRegex(stalled["stalled"], r"worker-[01],? .*waits? for .*cannot be reached: no route to host")
        self.assertEqual(stalled["progress"]["examplesPerSecond"], 0)
        self.assertNotIn("remainingSeconds", stalled)
        code, out = self.status()
        self.assertEqual(code, 1, out)
        self.assertRegex(out, r"Stalled: +nothing has moved for \d+ s")
        # Each worker finds out in its own time: status may know it of the other one first.
        self.wait_until(lambda _: "cannot be reached: no route to host" in self.log_of("worker-0"))
        code, out, _ = self.h2.run(TOOL, "doctor", "--keys", self.keys, "--chief", self.chief_at, "--cluster=none")
        self.assertEqual(code, 1, out)
        self.assertRegex(out, rf"PROBLEM +address +ps-\d at {self.h1.address}:\d+ cannot be reached: no route to host")
        self.h2.inside.ip(f"route del unreachable {self.h1.address}")
        self.wait_for_steps()
        self.cancel(chief)

    def test_links_are_cut_and_processes_killed(self):
        self.write_endless_job()
        chief, servers, workers = self.start_cluster()
        self.wait_for_steps()
        for break_link in (self.network.cut, self.network.drop):
            break_link(self.h2)
            self.wait_until(lambda s: not alive(s, "worker-0") and not alive(s, "worker-1"))
            self.network.heal(self.h2)
            self.wait_for_steps()
        self.network.drop(self.h1)
        self.wait_until(lambda s: not alive(s, "ps-0") and not alive(s, "ps-1"))
        self.network.heal(self.h1)
        self.wait_for_steps()
        for victim, start in ((servers[0], self.start_ps), (workers[0], self.start_worker)):
            victim.signal(signal.SIGKILL)
            self.wait_until(lambda s: s["pending"])
            start(self.h1)
            self.wait_for_steps()
        chief.signal(signal.SIGKILL)
        chief.finish()
        chief = self.start_chief()
        self.wait_for_steps()
        self.cancel(chief)

    def test_servers_whose_host_got_another_address_join_the_next_chief_with_it(self):
        self.write_endless_job()
        chief, _, _ = self.start_cluster()
        self.wait_for_steps()
        self.network.cut(self.h1)
        chief.signal(signal.SIGKILL)
        chief.finish()
        self.h1.take_address("10.77.0.200")
        self.network.heal(self.h1)
        chief = self.start_chief()
        status = self.wait_for_steps()
        self.assertRegex(task_of(status, "ps-0")["endpoint"], rf"^{self.h1.address}:\d+$")
        self.cancel(chief)

    def test_servers_whose_host_gets_another_address_go_on_under_the_same_chief(self):
        self.write_endless_job()
        chief, _, _ = self.start_cluster()
        before = task_of(self.wait_for_steps(), "ps-0")
        self.network.cut(self.h1)
        self.h1.take_address("10.77.0.200")
        self.network.heal(self.h1)
        for ps in ("ps-0", "ps-1"):
            where = rf"^{self.h1.address}:\d+$"
            self.wait_until(lambda status, ps=ps: re.match(where, task_of(status, ps).get("endpoint", "")))
        status = self.wait_for_steps()
        self.assertEqual(task_of(status, "ps-0")["pid"], before["pid"])
        self.assertEqual(status["recovery"]["batchesRecomputed"], 0, "they hold what they held")
        self.cancel(chief)

    def test_doctor_says_what_a_server_here_would_be_told_to_others(self):
        code, out, _ = self.h1.run(
            TOOL, "doctor", "--role=ps", "--keys", self.keys, "--listen=0.0.0.0:0", "--chief", self.chief_at,
            "--cluster=none",
        )  # fmt: skip
        self.assertIn(f"others are told {self.h1.address}", out)
        code, out, _ = self.h1.run(
            TOOL, "doctor", "--role=ps", "--keys", self.keys, "--listen=0.0.0.0:0", "--chief", "h0:7000",
            "--cluster=none",
        )  # fmt: skip
        self.assertEqual(code, 1)
        self.assertRegex(out, "h0: .*(name|Name)")


if __name__ == "__main__":
    unittest.main()
