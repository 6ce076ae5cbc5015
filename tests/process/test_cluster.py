"""deploy/cluster against real sshd processes on loopback: one port, folder and name for each host."""

import json
import os
import re
import shlex
import shutil
import signal
import sys
import unittest

from cluster import LONG, PROGRAMS, ROOT, TOOL, Process, Stream, kill, wait_for_death
from ssh_hosts import SSHD, DeployTest, SshHostsTest, is_alive

# As printf takes them: a colour, which stays; then a title, escapes of both kinds, a word over the ones before.
ESCAPES = r"\033[31mred\033[0m \033]0;title\007 \033[2J \302\233[H \rover\n"


@unittest.skipUnless(SSHD and shutil.which("ssh"), "sshd or ssh is not there: clusters are not brought up")
class SshTest(SshHostsTest):
    def test_up_twice_and_down_twice(self):
        keys = self.folder / "keys"
        self.assertEqual(self.tool("keys", "new", "--out", keys)[0], 0)
        self.key_flags = ("--keys", keys)
        words = ("--set", "training.batchSize=32", "--keys", keys)
        code, out, err = self.up(*words)
        self.assertEqual(code, 0, err)
        self.assertIn("RUNNING: chief at 127.0.0.1:", out)
        self.assertIn(f"status {self.hosts} --ssh-config", out)
        tasks = self.tasks()
        self.assertEqual(sorted(tasks), ["chief", "ps-0", "ps-1", "worker-0", "worker-1", "worker-2"])
        code, out, err = self.cluster("status")
        self.assertEqual(code, 0, err)
        self.assertIn("RUNNING", out)
        code, out, err = self.cluster("doctor", self.job_file, "--install", self.install, *words)
        self.assertEqual(code, 0, out + err)
        for task in ("chief", "ps-0", "ps-1"):
            self.assertRegex(out, rf"ok +address +{task} at 127.0.0.1:\d+ answers")
        self.assertNotIn("nobody listens", out)

        kill(tasks["worker-1"], signal.SIGKILL)
        wait_for_death(tasks["worker-1"])
        self.job_dir = self.folder / "h0/run"
        status = self.wait_until(lambda s: s["pending"])
        self.assertRegex(status["next"][0], rf"^\S*deploy/cluster up {self.hosts} .*{self.job_file} .*--keys {keys}")
        code, _, err = self.up(*words)
        self.assertEqual(code, 0, err)
        again = self.tasks()
        self.assertNotEqual(again.pop("worker-1"), tasks.pop("worker-1"))
        self.assertEqual(again, tasks)
        self.assertIn("joined as worker-0", self.cluster("logs", "worker-0")[1])

        how = rf"go on from it with \S*deploy/cluster up {self.hosts} .*{self.job_file} .*--keys {keys}.* --resume\n"
        for said in (how, "^$"):
            code, out, err = self.cluster("down")
            self.assertEqual(code, 0, err)
            self.assertRegex(out, said)
        self.assertEqual([name for name, pid in tasks.items() if is_alive(pid)], [])
        self.assertEqual(self.tasks(), {})

    def test_a_host_that_does_not_answer_is_named_and_the_rest_goes_on(self):
        self.daemons["h2"].end()
        code, _, err = self.up()
        self.assertEqual(code, 1)
        self.assertIn("h2 does not answer", err)
        self.assertIn("the job needs 3 of worker, but the hosts that answer have no place for worker-2", err)
        self.assertEqual(self.tasks(), {})
        self.assertIn("the job needs 3 of ps, ", self.up("--scale-tier", "standard-1")[2])

        code, out, err = self.up("--set", "cluster.workerCount=2")
        self.assertEqual(code, 0, err)
        self.assertIn("h2 does not answer", err)
        self.assertEqual(len(self.tasks()), 5)
        for verb in ("status", "down"):  # it holds nothing
            code, _, err = self.cluster(verb)
            self.assertEqual(code, 0, err)
            self.assertIn("h2 does not answer", err)
        self.assertEqual(self.tasks(), {})

    def test_a_host_that_holds_something_and_does_not_answer_counts_until_it_does(self):
        self.assertEqual(self.up()[0], 0)
        self.daemons["h2"].end()
        self.assertEqual(self.cluster("status")[0], 1)
        for _ in range(2):
            code, _, err = self.cluster("down")
            self.assertEqual(code, 1)
            self.assertIn("what runs on h2 still runs; try again", err)
        self.daemons["h2"] = self.start_sshd("h2")
        code, _, err = self.cluster("down")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.tasks(), {})
        self.daemons["h2"].end()
        self.assertEqual(self.cluster("down")[0], 0)

    def test_another_job_than_the_one_that_runs_is_refused_with_the_difference(self):
        code, _, err = self.up("--set", "training.batchSize=32")
        self.assertEqual(code, 0, err)
        before = self.tasks()
        code, _, err = self.up("--set", "training.batchSize=64", "--set", "seed=5")
        self.assertEqual(code, 2, err)
        self.assertIn("it differs in seed (1 there, 5 here), training.batchSize (32 there, 64 here)", err)
        self.assertIn("or change the job by `down` and then `up`", err)
        self.assertEqual(self.tasks(), before)
        job_there = self.folder / "h0/job.json"
        older = json.loads(job_there.read_text())
        del older["timing"]  # as one whose release had no such entry
        job_there.write_text(json.dumps(older))
        code, _, err = self.up("--set", "training.batchSize=32")
        self.assertEqual(code, 0, err)
        job_there.write_text('{"name":')
        code, _, err = self.up("--set", "training.batchSize=32")
        self.assertEqual(code, 2, err)
        self.assertRegex(err, r"job.json .* on h0 is none for this release \(\d+:\d+: .*\): `down`, then `up`")
        self.assertEqual(self.tasks(), before)
        self.assertEqual(self.cluster("down")[0], 0)
        code, _, err = self.up("--set", "training.batchSize=32", "--set", "seed=5")
        self.assertEqual(code, 1)
        self.assertRegex(err, r"did not start: .*seed \(1 there, 5 here\)")
        self.assertNotIn("SIGTERM", err)  # which the run before said

    def test_the_doctor_compares_the_hosts(self):
        code, out, err = self.cluster("doctor", self.job_file, "--install", self.install)
        self.assertEqual(code, 0, out + err)
        for part in ("h0, as chief:", "h1, as ps:", "h1, as worker:", "h2, as worker:", "1,000 examples, fingerprint "):
            self.assertIn(part, out)
        keys = self.folder / "keys"
        self.assertEqual(self.tool("keys", "new", "--out", keys)[0], 0)
        code, out, err = self.cluster("doctor", self.job_file, "--install", self.install, "--keys", keys)
        self.assertEqual(code, 0, out + err)
        for role in ("chief", "client", "ps", "worker"):
            self.assertIn(f"those of a {role}, of cluster ", out)
        self.assertNotIn("is here too", out)
        self.assertEqual(list(self.folder.glob("h*/*keys")), [])
        (keys / "ps.secret").unlink()
        code, _, err = self.cluster("doctor", self.job_file, "--install", self.install, "--keys", keys)
        self.assertEqual(code, 1)
        self.assertIn(f"h1 failed: there is no {keys}/ps.secret", err)
        lacking = ["--set", "data.train.images=/nowhere"]
        code, out, err = self.cluster("doctor", self.job_file, "--install", self.install, *lacking)
        self.assertEqual(code, 1)
        self.assertIn("PROBLEM", out)
        self.daemons["h2"].end()
        code, _, err = self.cluster("doctor", self.job_file, "--install", self.install)
        self.assertEqual(code, 1)
        self.assertIn("h2 does not answer", err)

    def test_data_that_a_worker_cannot_read_is_named(self):
        code, _, err = self.up("--set", "data.train.images=/nowhere/images")
        self.assertEqual(code, 1)
        self.assertIn("h1 failed: cannot read /nowhere/images", err)
        self.assertEqual(self.tasks(), {})

    def install_with_idle_workers(self):
        """Programs whose workers say so and never join; and what is told, line by line, when one starts."""
        install, told = self.folder / "idle", self.folder / "told"
        install.mkdir()
        for program in (TOOL, PROGRAMS["chief"], PROGRAMS["ps"]):
            (install / program.name).symlink_to(f"{self.install}/{program.name}")
        worker = install / PROGRAMS["worker"].name
        worker.write_text(f"#!/bin/sh\necho does not join\necho started > {told}\nexec sleep 600\n")
        worker.chmod(0o755)
        os.mkfifo(told)
        return install, iter(Stream(os.fdopen(os.open(told, os.O_RDWR))))

    def test_what_a_task_said_that_never_joined_is_found_on_its_host(self):
        install, told = self.install_with_idle_workers()
        code, _, err = self.cluster("up", self.job_file, "--install", install, "--port", self.port, "--wait", 1)
        self.assertEqual(code, 1, err)
        for _ in range(3):  # each has spoken by then
            next(told)
        code, out, err = self.cluster("logs", "worker-2")
        self.assertEqual((code, out), (0, "does not join\n"), err)
        self.assertIn("worker-2 did not join; this is what it said on h2", err)
        self.assertEqual(self.cluster("down")[0], 0)

    def install_of_hostile_hosts(self, says):
        """Programs of which the chief announces itself as `says`, and the tool that is asked there prints escapes."""
        install = self.folder / "hostile"
        install.mkdir()
        for program in (PROGRAMS["ps"], PROGRAMS["worker"]):
            (install / program.name).symlink_to(f"{self.install}/{program.name}")
        announced = shlex.quote(json.dumps({"endpoint": says})[1:-1])
        (install / PROGRAMS["chief"].name).write_text(
            f"#!/bin/sh\nmkdir -p run\necho '{{\"pid\":'$$,{announced}}} > run/chief.json\n"
            f"printf '{ESCAPES}'; exec sleep 600\n"
        )
        (install / TOOL.name).write_text(
            "#!/bin/sh\ncase $1 in\n"
            f"status | logs | watch) printf '{ESCAPES}'; printf '{ESCAPES}' >&2 ;;\n"
            f"*) exec {self.install}/{TOOL.name} \"$@\" ;;\nesac\n"
        )
        for program in (PROGRAMS["chief"], TOOL):
            (install / program.name).chmod(0o755)
        return install

    def test_what_the_chiefs_host_says_runs_nowhere(self):
        owned = self.folder / "owned"
        commands = (f"127.0.0.1:7000;touch${{IFS}}{owned};", f"$(touch {owned})")
        for says in (*commands, "192.0.2.1:7000", "127.0.0.1:0x7", 7):
            with self.subTest(says):
                shutil.rmtree(self.folder / "hostile", ignore_errors=True)
                install = self.install_of_hostile_hosts(says)
                code, _, err = self.cluster("up", self.job_file, "--install", install, "--wait", 1)
                self.assertEqual(code, 1, err)
                self.assertRegex(err, "h0 says that its chief listens at .*: that is no port of 127.0.0.1")
                self.assertEqual(sorted(self.tasks()), ["chief"])
                self.assertFalse(owned.exists())
                self.assertEqual(self.cluster("down")[0], 0)

    def test_what_a_host_says_does_not_drive_a_terminal(self):
        install = self.install_of_hostile_hosts(f"127.0.0.1:{self.port}")
        code, out, err = self.cluster("up", self.job_file, "--install", install, "--port", self.port, "--wait", 10)
        self.assertEqual(code, 1, err)
        self.assertIn("h0 failed: what it says is no status", err)
        said = [*self.cluster("status")[1:], *self.cluster("logs")[1:], self.cluster("logs", "chief")[1]]
        for words in said:
            self.assertIn("\x1b[31mred\x1b[0m ?]0;title? ?[2J ?[H ?over\n", words)
            self.assertEqual(re.findall(r"[^\n\x20-\x7e]", re.sub("\x1b\\[[0-9]+m", "", words)), [])
        (self.folder / "h0/logs/chief.out").write_bytes(b"The last checkpoint is \x1b]0;title\x07\xc2\x9b2J\n")
        code, out, err = self.cluster("down")
        self.assertEqual(code, 0, err)
        self.assertEqual(out, "The last checkpoint is ?]0;title??2J\n")

    def test_the_part_that_computes_on_gpus_is_installed_too(self):
        install = self.folder / "with-cuda"
        shutil.copytree(self.install, install)
        (install / "downpour-cuda.so").write_text("a library")
        self.cluster("up", self.job_file, "--install", install, "--set", "data.train.images=/nowhere/images")
        self.assertEqual((self.folder / "h2/install/downpour-cuda.so").read_text(), "a library")

    def test_what_is_interrupted_leaves_only_what_was_there_before(self):
        install, told = self.install_with_idle_workers()

        def interrupted(starts):
            words = ("--install", install, "--port", self.port, "--ssh-config", self.folder / "ssh_config")
            up = Process(self, [sys.executable, ROOT / "deploy/cluster", "up", self.hosts, self.job_file, *words])
            for _ in range(starts):
                next(told)
            up.signal(signal.SIGINT)
            self.assertEqual(up.finish()[0], 130, up.said)
            self.assertIn("interrupted: what this call started ends", up.said)

        interrupted(starts=3)
        self.assertEqual(self.tasks(), {})
        said = self.cluster("up", self.job_file, "--install", install, "--port", self.port, "--wait", 1)
        before = self.tasks()
        self.assertEqual(len(before), 6, said)
        kill(before["worker-2"])
        wait_for_death(before.pop("worker-2"))
        for _ in range(3):
            next(told)
        interrupted(starts=1)
        self.assertEqual(self.tasks(), before)

    def test_an_address_that_the_others_cannot_reach_is_named(self):
        hosts_text = self.hosts.read_text()
        self.hosts.write_text(hosts_text.replace(f"addr=127.0.0.1 dir={self.folder}/h2", "addr=192.0.2.1"))
        code, _, err = self.up()
        self.assertEqual(code, 2)
        self.assertIn("h0 is at 127.0.0.1, where the other hosts do not reach it: say addr=ADDRESS", err)

    def test_each_host_gets_the_keys_of_its_roles_until_the_end(self):
        keys = self.folder / "keys"
        keys.mkdir()
        no_data = ("--set", "data.train.images=/nowhere/images", "--keys", keys)  # so that nothing starts
        self.assertIn("make keys by `downpour keys new --out DIR`", self.up(*no_data)[2])
        for role in ("chief", "ps", "worker", "client"):
            (keys / f"{role}.public").write_text("public")
            (keys / f"{role}.secret").write_text("secret")
        self.up(*no_data)
        there = {file.name for file in (self.folder / "h1/keys").iterdir()}
        self.assertEqual({name for name in there if name.endswith(".secret")}, {"ps.secret", "worker.secret"})
        self.assertEqual(len([name for name in there if name.endswith(".public")]), 4)
        self.assertTrue((self.folder / "h0/keys/client.secret").exists())
        for path, mode in (("h1/keys", 0o700), ("h1/keys/ps.secret", 0o600)):
            self.assertEqual((self.folder / path).stat().st_mode & 0o777, mode)
        self.assertEqual(self.cluster("down")[0], 0)
        self.assertEqual(list(self.folder.glob("h*/keys")), [])


class HostsFileTest(DeployTest):
    def refused(self, text):
        self.hosts.write_text(text)
        code, _, err = self.cluster("down")
        self.assertEqual(code, 2, err)
        return err

    def test_every_mistake_is_told_with_its_line(self):
        err = self.refused("h0 role=chief\nh1 role=boss\nh2 role=ps slots=0\nh3 role=ps solts=2\nh0 role=chief\n"
                           "-oProxy role=ps\nh4 role=ps dir=~me/x\n")  # fmt: skip
        unread = [f"{number}: a line is" for number in (2, 3, 4, 6)]
        for line in (*unread, "5: h0 is chief twice", "7: dir=~me/x"):
            self.assertIn(f"{self.hosts}:{line}", err)

    def test_every_role_must_be_there_once(self):
        two_chiefs = "h0 role=chief slots=2\nh1 role=ps\nh2 role=worker\n"
        for text in ("", "h0 role=chief\n", "h0 role=ps\nh1 role=worker\n", two_chiefs):
            self.assertIn("there must be one chief", self.refused(text))

    def test_a_file_that_is_not_there(self):
        self.hosts = self.folder / "none"
        code, _, err = self.cluster("status")
        self.assertEqual(code, 2)
        self.assertIn("No such file", err)


if __name__ == "__main__":
    unittest.main()
