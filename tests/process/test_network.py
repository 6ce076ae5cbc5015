"""Links between real processes that are cut, one way or both, that are slow, that are reset: it costs time alone."""

import random
import signal
import threading
import unittest

from cluster import PROGRAMS, Process, ProcessTest, complete, free_port, task_of
from faults import routed
from links import Link

MEMBERS = ("ps-0", "ps-1", "worker-0", "worker-1")


class NetworkTest(ProcessTest):
    """A cluster in which each member dials the chief and the servers through links of its own."""

    def start_cluster(self):
        self.write_endless_job()
        listens = {name: free_port() for name in ("chief", "ps-0", "ps-1")}
        chief = ["chief", f"--job={self.job_file}", f"--job_dir={self.job_dir}", f"--trace_dir={self.job_dir}/trace"]
        self.chief = self.start(*chief, f"--listen=127.0.0.1:{listens['chief']}")
        self.chief.wait_for_line("waits for its tasks at")
        self.links = {(name, to): Link(self, port) for name in MEMBERS for to, port in listens.items() if name != to}
        for name in MEMBERS:
            role, index = name.split("-")
            routes = {port: self.links[name, to].port for to, port in listens.items() if name != to}
            flags = [f"--chief=127.0.0.1:{listens['chief']}", f"--index={index}", f"--trace_dir={self.job_dir}/trace"]
            if role == "ps":
                flags.append(f"--listen=127.0.0.1:{listens[name]}")
            Process(self, routed(routes, [PROGRAMS[role], *flags]))
        self.pids = {name: task_of(self.everybody_gets_on(), name)["pid"] for name in MEMBERS}

    def everybody_gets_on(self):
        """Waits until each worker has computed more, and a lease was committed."""
        began = self.wait_until(complete)
        steps = lambda s, name: task_of(s, name).get("step", 0)
        whose = {name: task_of(began, name)["incarnation"] for name in MEMBERS}

        def on(status, name):  # whoever had to join again counts from nothing
            same = task_of(status, name)["incarnation"] == whose[name]
            return steps(status, name) > (steps(began, name) if same else 0)

        done = began["progress"]["commits"]
        workers = [name for name in MEMBERS if name.startswith("worker")]
        all_on = lambda s: complete(s) and all(on(s, w) for w in workers)
        return self.wait_until(lambda s: all_on(s) and s["progress"]["commits"] > done)

    def end(self):
        """Everybody is who he was, and every batch took effect once."""
        status = self.everybody_gets_on()
        self.assertEqual({name: task_of(status, name)["pid"] for name in MEMBERS}, self.pids)
        self.chief.signal(signal.SIGTERM)
        self.assertEqual(self.chief.finish()[0], 143, self.chief.said)
        return self.check_cancelled()

    def stands_still_for(self, server):
        """Whether worker-0 waits for that server alone, and computes nothing while the other computes twenty steps."""
        since = {}

        def still(status):
            step, other = (task_of(status, worker).get("step", 0) for worker in ("worker-0", "worker-1"))
            if since.get("step") != step:
                since.update(step=step, other=other)
            words = task_of(status, "worker-0")["waitingFor"]
            return other >= since["other"] + 20 and server in words and "," not in words

        return still

    def test_a_worker_cut_off_from_a_server_waits_and_goes_on(self):
        self.start_cluster()
        link = self.links["worker-0", "ps-0"]
        for ways in (("out", "in"), ("out",), ("in",)):
            link.cut(*ways)
            self.wait_until(self.stands_still_for("ps-0"))
            link.heal()
            self.everybody_gets_on()
        summary = self.end()
        self.assertEqual((summary["workersLost"], summary["psLost"]), (0, 0))

    def test_connections_that_are_reset(self):
        self.start_cluster()
        draw = random.Random(3)
        for _ in range(20):
            for pair in draw.sample(sorted(self.links), 4):
                self.links[pair].reset()
            self.everybody_gets_on()
        summary = self.end()
        self.assertEqual((summary["workersLost"], summary["psLost"]), (0, 0))

    def test_a_slow_and_narrow_link(self):
        self.start_cluster()
        for (member, _), link in self.links.items():
            if member == "worker-0":
                link.delay, link.bytes_per_second = 0.1, 1e6
        for _ in range(3):
            self.everybody_gets_on()
        summary = self.end()
        self.assertEqual((summary["workersLost"], summary["psLost"]), (0, 0))

    def test_all_links_clogged_and_healed_at_random(self):
        self.start_cluster()
        draw, pause = random.Random(5), threading.Event()
        for _ in range(2):
            for pair in draw.choices(sorted(self.links), k=30):
                link = self.links[pair]
                draw.choice((link.cut, link.cut, link.reset, link.heal))()
                pause.wait(draw.uniform(0, 0.5))
            for link in self.links.values():
                link.heal()
            self.everybody_gets_on()
        self.end()


if __name__ == "__main__":
    unittest.main()
