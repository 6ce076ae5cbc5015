"""A cluster with keys: it trains, and nobody without a key of it gets in or does harm."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import unittest
import unittest.mock

import zmtp
from cluster import BUILD, LONG, PROGRAMS, Process, ProcessTest, alive, complete, free_port, joined, kill, task_of
from faults import routed
from links import Link

HOSTILE = BUILD / "tests/process/hostile"
MEMORY_BUDGET = 64 << 20  # bytes by which an attack may make a process grow
ENDLESS_BUDGET = 640 << 20  # by which a message of 1 GiB may, before a busy process cuts it off


def resident_bytes(pid, peak=False):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:" if peak else "VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"process {pid} has ended")


def port_of(endpoint):
    return int(endpoint.rsplit(":", 1)[1])


class KeysTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.keys = self.folder / "keys"
        code, out, err = self.tool("keys", "new", "--out", self.keys)
        self.assertEqual(code, 0, err)
        self.assertIn("client.secret", out)
        self.key_flags = ("--keys", self.keys)

    def start_cluster(self, last_worker_keys=None):
        """All of them, once they are there, the last server last; the chief is first. A worker may have own keys."""
        flags = [f"--keys={self.keys}", f"--trace_dir={self.job_dir}/trace"]
        chief = self.start("chief", f"--job={self.job_file}", f"--job_dir={self.job_dir}", *flags)
        self.chief_at = chief.wait_for_line(r"waits for its tasks at (\S+)")[1]
        flags.append(f"--chief={self.chief_at}")
        self.ps_at = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        servers = [("ps", *flags, f"--index={i}", f"--listen={at}") for i, at in enumerate(self.ps_at)]
        members = [self.start(*servers[0]), self.start("worker", *flags, "--index=0")]
        flags[0] = f"--keys={last_worker_keys or self.keys}"
        members.append(self.start("worker", *flags, "--index=1"))
        self.wait_until(lambda s: joined(s) == 3)
        return [chief, *members, self.start(*servers[1])]

    def start_endless_cluster(self, **options):
        self.write_endless_job()
        cluster = self.start_cluster(**options)
        self.wait_until(complete)
        return cluster

    def hostile(self, deed, role="worker", ps=None, run=()):
        """Does it at the chief's door, or at that of a ps."""
        at, door = (self.chief_at, "chief") if ps is None else (self.ps_at[ps], "ps")
        command = [HOSTILE, deed, at, self.keys, role, door, *map(str, run)]
        return subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=True).stdout

    def test_a_cluster_with_keys_trains(self):
        self.write_job()
        for process in self.start_cluster():
            self.assertEqual(process.finish()[0], 0, process.said)
        self.check_success()

    def test_without_keys_nothing_listens_beyond_this_machine(self):
        self.write_job()
        chief = self.start("chief", f"--job={self.job_file}", f"--job_dir={self.job_dir}", "--listen=0.0.0.0:0")
        self.assertEqual(chief.finish()[0], 2)
        self.assertIn("will not listen on 0.0.0.0:0 without keys", chief.said)
        self.assertFalse(self.job_dir.exists())
        self.assertIn("downpour keys new --out DIR", chief.said)

    def test_bad_key_folders_are_named_with_the_remedy(self):
        self.write_job()
        (self.keys / "chief.secret").chmod(0o644)
        chief = self.start("chief", f"--job={self.job_file}", f"--job_dir={self.job_dir}", f"--keys={self.keys}")
        self.assertEqual(chief.finish()[0], 2)
        self.assertIn(f"chmod 600 {self.keys}/chief.secret", chief.said)
        self.assertFalse(self.job_dir.exists())

    def test_whoever_is_told_to_stop_while_it_tries_its_own_door_ends_at_once(self):
        """Its knock comes to a door at which nobody says a word."""
        mute = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(mute.close)
        mute.settimeout(LONG)
        port = free_port()
        flags = (f"--keys={self.keys}", "--chief=127.0.0.1:1", f"--listen=127.0.0.1:{port}")
        server = Process(self, routed({port: mute.getsockname()[1]}, [PROGRAMS["ps"], *flags]))
        self.addCleanup(mute.accept()[0].close)
        server.signal(signal.SIGTERM)
        self.assertEqual(server.finish()[0], -signal.SIGTERM, server.said)

    def test_run_makes_keys_where_others_can_reach_it(self):
        os.environ["DOWNPOUR_KEYS"] = ""  # says nothing
        self.addCleanup(os.environ.pop, "DOWNPOUR_KEYS")
        self.write_endless_job()
        self.start_run("--listen", "0.0.0.0:0")
        self.keys, self.key_flags = self.job_dir / "keys", ()  # which are found there
        self.wait_until(complete)
        code, out, _ = self.tool("status", "--job-dir", self.job_dir)
        self.assertEqual(code, 0, out)
        endpoint = self.status()["chief"]["endpoint"]
        self.chief_at = f"127.0.0.1:{port_of(endpoint)}"
        self.assertEqual(self.hostile("knock"), "refused\n")
        code, _, err = self.tool("status", "--chief", self.chief_at)
        self.assertEqual(code, 69)
        self.assertIn("somebody listens there, and hangs up", err)
        self.assertIn("add --keys=DIR", err)
        self.assertNotIn("Is it running?", err)

    def status(self):
        return self.wait_until(lambda s: True)

    def test_who_has_no_key_of_the_cluster_is_refused_and_shown(self):
        chief = self.start_endless_cluster()[0]
        other = self.folder / "other"
        self.assertEqual(self.tool("keys", "new", "--out", other)[0], 0)
        self.assertEqual(self.hostile("knock"), "refused\n")
        self.assertEqual(self.hostile("knock", ps=1), "refused\n")
        code, _, err = self.tool("status", "--chief", self.chief_at, "--keys", other)
        self.assertEqual(code, 69, err)
        self.assertIn("those of another cluster than --keys", err)
        misled = self.start("ps", f"--chief={self.chief_at}", "--listen=127.0.0.1:0", f"--keys={other}")
        misled.wait_for_line(rf"our keys in {other} are of another cluster: give --keys=DIR")
        keyless = self.start("worker", f"--chief={self.chief_at}")
        keyless.wait_for_line("speaks to nobody without keys: give --keys=DIR")
        chief.wait_for_line("refused a peer at 127.0.0.1 without keys, or with those of another cluster")
        status = self.wait_until(lambda s: s["chief"]["refused"] >= 2 and s["chief"]["refusedFrom"] == "127.0.0.1")
        self.assertEqual(status["state"], "RUNNING")
        self.wait_until(lambda s: s["chief"]["refused"] >= status["chief"]["refused"] + 4)
        self.assertEqual(misled.said.count("are of another cluster"), 1)  # though it goes on, and dials the chief twice
        refused_here = lambda task: task["refused"] >= 1 and task["refusedFrom"] == "127.0.0.1"
        self.wait_until(lambda s: refused_here(task_of(s, "ps-1")))
        code, out, _ = self.tool("status", "--chief", self.chief_at, "--keys", self.keys)
        self.assertRegex(out, r"\d+ handshakes? at ps-1 without a key of this cluster, the last from 127.0.0.1")
        self.assertRegex(out, r"Refused: +\d+ handshakes at the chief without a key of this cluster, the last from "
                         "127.0.0.1")  # fmt: skip
        self.assertIn(f"downpour doctor --keys DIR --role ROLE --chief {self.chief_at}", out)

    def test_the_doctor_goes_to_the_chief_as_whom_the_keys_are(self):
        self.start_endless_cluster()
        other = self.folder / "other"
        self.assertEqual(self.tool("keys", "new", "--out", other)[0], 0)
        for role, peers in (("worker", ("chief", "ps")), ("ps", ("chief", "worker")), ("client", ("chief",)),
                            ("viewer", ("chief",))):  # fmt: skip
            asks = role in ("client", "viewer")
            let_in = r"small is [A-Z]+" if asks else rf"chief +lets in a {role} with these keys"
            for keys, said in ((self.keys, let_in), (other, "PROBLEM  chief ")):
                folder = self.folder / f"{keys.name}-of-{role}"
                folder.mkdir(mode=0o700)
                for file in (f"{role}.secret", *(f"{peer}.public" for peer in peers)):
                    shutil.copy(keys / file, folder)
                flags = ["--cluster=none", "--keys", folder, "--role", role, "--chief", self.chief_at]
                out = self.tool("doctor", *flags)[1]
                self.assertRegex(out, f"ok +keys +those of a {role}, of cluster ")
                self.assertNotIn("PROBLEM  keys", out)
                self.assertRegex(out, said)

    def test_a_viewer_looks_and_a_client_commands(self):
        [chief, *_] = self.start_endless_cluster()
        ann = self.folder / "ann"
        self.assertEqual(self.tool("keys", "issue", "--keys", self.keys, "viewer", "--out", ann)[0], 0)
        self.assertEqual({file.name for file in ann.iterdir()}, {"viewer.secret", "chief.public", "ps.public"})
        where = ("--chief", self.chief_at, "--keys", ann)
        self.wait_until(lambda _: self.tool("status", *where)[0] == 0)  # once the chief has read the new key
        self.assertRegex(self.tool("doctor", "--cluster=none", *where)[1], r"ok +chief +answers")
        before = self.status()["chief"]
        for command in (["stop"], ["cancel"], ["scale", "--workers", "1"], ["checkpoint", "now"]):
            code, _, err = self.tool(*command, *where)
            self.assertEqual(code, 1, err)
            self.assertIn("these keys are a viewer's, who may only look", err)
        run = (self.status()["run"], before["term"])
        self.assertEqual(self.hostile("stop", "viewer", run=run), "unanswered\n")
        after = self.wait_until(lambda s: s["chief"]["rejected"] > before["rejected"])
        self.assertEqual((after["state"], after["chief"]["commands"]), ("RUNNING", 0))
        mine = ("--chief", self.chief_at, *self.key_flags)
        code, out, err = self.tool("checkpoint", "now", *mine)
        self.assertEqual(code, 0, out + err)
        code, out, err = self.tool("cancel", *mine)
        self.assertEqual(code, 0, out + err)
        self.assertEqual(chief.finish()[0], 143, chief.said)

    def test_a_client_that_speaks_for_itself_is_heard(self):
        """So what a viewer's deed came to was its key's doing."""
        [chief, *_] = self.start_endless_cluster()
        self.assertEqual(self.hostile("stop", "client", run=(self.status()["run"], self.status()["chief"]["term"])),
                         "answered\n")  # fmt: skip
        self.assertEqual(chief.finish()[0], 143, chief.said)

    def test_a_viewer_reads_at_a_ps_and_does_nothing_else(self):
        self.start_endless_cluster()
        rows = self.folder / "rows.json"
        rows.write_text(json.dumps([0] * 64))
        bo = self.folder / "bo"
        self.assertEqual(self.tool("keys", "issue", "--keys", self.keys, "viewer", "--out", bo)[0], 0)
        with unittest.mock.patch.dict(os.environ, {"DOWNPOUR_KEYS": str(bo)}):
            code, out, err = self.tool("predict", self.job_dir, "--live", "--instances", rows)
        self.assertEqual(code, 0, err)
        self.assertIn("probabilities", out)
        status = self.status()
        before = task_of(status, "ps-0")
        run = (status["run"], status["chief"]["term"])
        self.assertEqual(self.hostile("say", "viewer", ps=0, run=run), "said\n")
        said = self.wait_until(lambda s: task_of(s, "ps-0")["rejected"] >= before["rejected"] + 30)
        for name in ("ps-0", "ps-1", "worker-0", "worker-1"):
            self.assertTrue(alive(said, name))
        step = task_of(said, "worker-0")["step"]
        self.wait_until(lambda s: task_of(s, "worker-0").get("step", 0) > step)  # no member is shut out

    def test_a_right_key_does_not_help_in_the_wrong_role(self):
        self.start_endless_cluster()
        before = self.status()["chief"]["rejected"]
        for role in ("client", "viewer", "worker", "ps"):
            self.assertEqual(self.hostile("say", role), "said\n")
        # Of 32 kinds of message no role may say more than a dozen.
        status = self.wait_until(lambda s: s["chief"]["rejected"] >= before + 4 * 20)
        self.assertEqual(status["state"], "RUNNING")
        for name in ("ps-0", "ps-1", "worker-0", "worker-1"):
            self.assertTrue(alive(status, name))
        outside = [path for path in self.folder.rglob("*") if "escape" in path.name]
        self.assertEqual(outside, [])

    def test_what_is_too_large_or_no_message_costs_neither_life_nor_memory(self):
        chief, ps = self.start_endless_cluster()[:2]
        doors = ((chief, self.chief_at, None), (ps, self.ps_at[0], 0))
        before = [resident_bytes(process.pid) for process, *_ in doors]
        for _, at, which in doors:
            self.flood_door(port_of(at), which)
        rejected = lambda s: s["chief"]["rejected"] and task_of(s, "ps-0")["rejected"]
        status = self.wait_until(lambda s: s["state"] == "RUNNING" and rejected(s))
        self.assertEqual(chief.pid, status["chief"]["pid"])
        self.assertEqual(ps.pid, task_of(status, "ps-0")["pid"])
        for (process, *_), bytes_before in zip(doors, before):
            self.assertLess(resident_bytes(process.pid), bytes_before + MEMORY_BUDGET)
        step = task_of(status, "worker-0")["step"]
        self.wait_until(lambda s: task_of(s, "worker-0").get("step", 0) > step)  # who was there goes on

    def flood_door(self, port, ps):
        self.assertEqual(self.hostile("oversize", ps=ps), "sent\n")
        half_open = [zmtp.dial(port) for _ in range(500)]
        for link in half_open:
            link.sendall(b"\xff")
        rng = random.Random(7)
        for _ in range(200):
            greeting = bytearray(zmtp.GREETING.replace(b"NULL\0", b"CURVE"))
            for _ in range(rng.randrange(1, 6)):
                greeting[rng.randrange(len(greeting))] = rng.randrange(256)
            zmtp.speak_raw(port, bytes(greeting) + rng.randbytes(rng.randrange(300)))
        zmtp.speak_raw(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        # A message that never ends, of one who has no keys: it is cut off long before its end.
        endless = zmtp.frame(bytes(1 << 20), zmtp.MORE)
        zmtp.speak_raw(port, zmtp.GREETING + zmtp.ready() + 200 * endless)
        for link in half_open:
            link.close()

    def flood(self, what, role, ps, job):
        at, door = (self.chief_at, "chief") if ps is None else (self.ps_at[ps], "ps")
        command = [HOSTILE, f"flood-{what}", at, self.keys, role, door, job["run"], str(job["chief"]["term"])]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "answered\n")
        return process

    def test_a_job_goes_on_while_who_has_a_key_floods_it_in_its_own_run(self):
        chief, ps = self.start_endless_cluster()[:2]
        job = self.wait_until(lambda s: s["progress"]["commits"] > 3)
        for what, role, which in (
            ("joins", "worker", None),
            ("heartbeats", "worker", None),
            ("statuses", "client", None),
            ("probes", "worker", 0),
            ("pulls", "worker", 0),
            ("pulls", "viewer", 0),
            ("repeats", "worker", 0),
            ("pushes", "worker", 0),
        ):
            flood = self.flood(what, role, which, job)
            before = self.status()
            commits, duplicates = before["progress"]["commits"] + 3, before["pushes"]["duplicate"] + 1000
            status = self.wait_until(lambda s, commits=commits: s["progress"]["commits"] > commits)
            self.assertEqual(status["state"], "RUNNING", what)
            self.assertIsNone(flood.poll(), what)
            if what == "repeats":  # each was judged
                self.wait_until(lambda s, duplicates=duplicates: s["pushes"]["duplicate"] > duplicates)
            flood.kill()
        self.assertEqual((chief.pid, ps.pid), (status["chief"]["pid"], task_of(status, "ps-0")["pid"]))
        self.assertEqual(status["recovery"]["psLost"], 0)

    def test_who_has_a_key_and_does_not_end_its_message_is_cut_off(self):
        chief, ps = self.start_endless_cluster()[:2]
        status = self.wait_until(lambda s: task_of(s, "worker-0").get("step", 0) > 0)
        for process, which in ((chief, None), (ps, 0)):
            before = resident_bytes(process.pid, peak=True)
            self.assertEqual(self.hostile("endless", ps=which), "cut off\n")
            process.wait_for_line("cut off a peer at 127.0.0.1, whose message did not end after [0-9]+ MiB")
            self.assertLess(resident_bytes(process.pid, peak=True), before + ENDLESS_BUDGET)
        step = task_of(status, "worker-0")["step"]
        status = self.wait_until(lambda s: task_of(s, "worker-0").get("step", 0) > step)
        self.assertEqual((chief.pid, ps.pid), (status["chief"]["pid"], task_of(status, "ps-0")["pid"]))

    def test_a_key_that_is_taken_away_shuts_its_host_out(self):
        own = self.folder / "keys-of-h3"
        code, out, err = self.tool("keys", "issue", "--keys", self.keys, "worker", "--out", own)
        self.assertEqual(code, 0, err)
        line = re.search(r"^  (public \S+)$", out, re.M)[1]
        culprit = self.start_endless_cluster(last_worker_keys=own)[3]
        self.wait_until(lambda s: all(task_of(s, f"worker-{i}").get("step", 0) > 0 for i in range(2)))

        public = self.keys / "worker.public"
        self.replace(public, public.read_text().replace(line + "\n", ""))
        culprit.wait_for_line("does not know our key")
        shut_out = lambda s: not alive(s, "worker-1") and s["chief"]["refused"]
        step = task_of(self.wait_until(shut_out), "worker-0")["step"]
        self.wait_until(lambda s: task_of(s, "worker-0").get("step", 0) > step)

    def test_a_pair_is_renewed_while_the_job_goes_on(self):
        tasks = self.start_endless_cluster()
        public = self.keys / "worker.public"
        old = re.search(r"^public \S+\n", public.read_text(), re.M)[0]
        self.assertEqual(self.tool("keys", "renew", "--keys", self.keys, "worker")[0], 0)
        self.replace(public, public.read_text().replace(old, ""))
        for worker in tasks[2:4]:
            worker.wait_for_line("does not know our key")
        refused = lambda s: s["chief"]["refused"] >= 2 and all(task_of(s, f"ps-{i}")["refused"] for i in range(2))
        status = self.wait_until(lambda s: complete(s) and refused(s))
        self.get_on(status, tasks[2:4])

    def test_the_chiefs_pair_is_renewed_by_starting_it_again(self):
        chief, *members = self.start_endless_cluster()
        self.assertEqual(self.tool("keys", "renew", "--keys", self.keys, "chief")[0], 0)
        kill(chief.pid)
        flags = [f"--job_dir={self.job_dir}", f"--keys={self.keys}", f"--listen={self.chief_at}"]
        again = self.start("chief", f"--job={self.job_file}", *flags)
        status = self.wait_until(lambda s: complete(s) and s["chief"]["pid"] == again.pid)
        self.assertEqual({task["pid"] for task in status["tasks"]}, {member.pid for member in members})

    def test_the_servers_pair_is_renewed_by_starting_one_after_the_other_again(self):
        tasks = self.start_endless_cluster()
        servers, workers = [tasks[1], tasks[4]], tasks[2:4]
        public = self.keys / "ps.public"
        old = re.search(r"^public \S+\n", public.read_text(), re.M)[0]
        self.assertEqual(self.tool("keys", "renew", "--keys", self.keys, "ps")[0], 0)
        flags = [f"--keys={self.keys}", f"--trace_dir={self.job_dir}/trace", f"--chief={self.chief_at}"]
        for i, at in enumerate(self.ps_at):
            kill(servers[i].pid)
            servers[i] = self.start("ps", *flags, f"--index={i}", f"--listen={at}")
            status = self.wait_until(lambda s: complete(s) and task_of(s, f"ps-{i}")["pid"] == servers[i].pid)
            self.get_on(status, workers)
        self.replace(public, public.read_text().replace(old, ""))
        self.get_on(self.status(), workers)
        kill(workers[1].pid)  # whoever comes dials both servers by the new key alone
        workers[1] = self.start("worker", *flags, "--index=1")
        status = self.wait_until(lambda s: complete(s) and task_of(s, "worker-1")["pid"] == workers[1].pid)
        self.get_on(status, workers)

    def get_on(self, status, workers):
        """Once each has taken a step since, and is the process that it was."""
        names = [f"worker-{i}" for i in range(len(workers))]
        before = {name: task_of(status, name).get("step", 0) for name in names}
        after = self.wait_until(lambda s: all(task_of(s, name).get("step", 0) > before[name] for name in names))
        self.assertEqual([task_of(after, name)["pid"] for name in names], [worker.pid for worker in workers])

    def replace(self, file, text):
        """Whole at once, and nobody else's, as files of keys must be."""
        draft = self.keys / "draft"
        draft.touch(mode=0o600)
        draft.write_text(text)
        draft.rename(file)

    def test_a_worker_that_reads_nothing_holds_up_nobody(self):
        _, ps, _, stopped, _ = self.start_endless_cluster()
        status = self.wait_until(lambda s: all(task_of(s, f"worker-{i}").get("step", 0) > 0 for i in range(2)))
        before, step = resident_bytes(ps.pid), task_of(status, "worker-0")["step"]
        kill(stopped.pid, signal.SIGSTOP)
        self.wait_until(lambda s: task_of(s, "worker-0").get("step", 0) > step + 1000)
        self.assertLess(resident_bytes(ps.pid), before + MEMORY_BUDGET)
        kill(stopped.pid, signal.SIGCONT)

    def test_what_was_recorded_cannot_be_said_again(self):
        self.start_endless_cluster()
        recorder = Link(self, port_of(self.chief_at), keep=True)
        flags = [f"--chief=127.0.0.1:{recorder.port}", f"--keys={self.keys}", "--index=0"]
        twin = self.start("worker", *flags)
        twin.wait_for_line("the name worker-0 is held by process")
        before = self.status()
        twin.end()
        for _ in range(3):
            zmtp.speak_raw(port_of(self.chief_at), recorder.heard)
        after = self.status()
        self.assertEqual(after["chief"]["rejected"], before["chief"]["rejected"])
        self.assertTrue(alive(after, "worker-0"))


if __name__ == "__main__":
    unittest.main()
