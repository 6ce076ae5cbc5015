"""How deploy/cluster reaches a host, what it believes of its words, and what interrupts it: no daemon is needed."""

import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
import types
import unittest
import unittest.mock

from cluster import ROOT, ProcessTest

sys.path.insert(0, str(ROOT / "deploy"))
import answers  # noqa: E402
import hosts  # noqa: E402
import install  # noqa: E402
import interrupts  # noqa: E402


@unittest.skipUnless(shutil.which("ssh"), "ssh is not there: it is asked what a name stands for")
class AddressTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.hosts = self.folder / "lab.hosts"

    def address(self, line, *numbers):
        """Where the first host of a file is reached, its name meaning these."""
        self.hosts.write_text(f"{line} role=chief\nh1 role=ps\nh1 role=worker\n")
        options = types.SimpleNamespace(hosts=self.hosts, name="lab", ssh_config="/dev/null", below="")
        found = [(0, 0, 0, "", (number, 0)) for number in numbers]
        with unittest.mock.patch("socket.getaddrinfo", return_value=found):
            return hosts.read_hosts(options)[0].address()

    def test_a_name_that_means_loopback_is_refused_with_the_remedy(self):
        with self.assertRaisesRegex(hosts.HostError, "here h0 means 127.0.1.1, .* no other host reaches it; say addr="):
            self.address("h0", "127.0.1.1")
        self.assertEqual(self.address("h0", "127.0.1.1", "10.0.0.5"), "10.0.0.5")
        self.assertEqual(self.address("h0 addr=127.0.0.1", "127.0.0.1"), "127.0.0.1")
        self.assertEqual(self.address("h0 addr=localhost", "::1"), "::1")

    def test_what_the_ssh_config_says_is_left_alone(self):
        config = self.folder / "ssh_config"
        config.write_text("Host h0\n  ConnectTimeout 77\n  HostName 10.0.0.5\n")
        self.hosts.write_text("h0 role=chief\nh1 role=ps\nh1 role=worker\n")
        options = types.SimpleNamespace(hosts=self.hosts, name="lab", ssh_config=str(config), below="")
        first, second = hosts.read_hosts(options)
        self.assertEqual(first.address(), "10.0.0.5")
        self.assertEqual(first.ssh[-3:], ["BatchMode=yes", "-o", "ServerAliveInterval=10"])
        self.assertEqual(second.ssh[-4:], ["-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10"])

    def test_a_folder_at_home_may_be_written_as_shells_have_it(self):
        for word, folder in (("~/lab", "lab"), ("~", "."), ("/x/~y", "/x/~y")):
            self.hosts.write_text(f"h0 role=chief dir={word}\nh1 role=ps\nh1 role=worker\n")
            options = types.SimpleNamespace(hosts=self.hosts, name="lab", ssh_config=None, below="")
            self.assertEqual(hosts.read_hosts(options)[0].dir, folder)


class InterruptTest(unittest.TestCase):
    """What is there in place of ssh runs its script here."""

    def setUp(self):
        handler = signal.signal(signal.SIGINT, interrupts.INTERRUPTS.come)
        self.addCleanup(signal.signal, signal.SIGINT, handler)
        self.addCleanup(setattr, interrupts.INTERRUPTS, "number", None)
        self.host = hosts.Host("h0", types.SimpleNamespace(name="lab", ssh_config=None, below=""))
        self.host.dir = self.enterContext(tempfile.TemporaryDirectory())
        self.host.ssh = ["sh", "-c", 'eval "$2"', "sh"]

    def test_one_that_comes_where_python_lets_no_exception_out_is_heeded(self):
        class Finalized:
            def __del__(self):
                signal.raise_signal(signal.SIGINT)

        Finalized()
        with self.assertRaises(interrupts.Interrupted):
            hosts.on_all([self.host], lambda host: host.run("touch begun"))
        self.assertEqual(os.listdir(self.host.dir), [])

    def test_what_has_begun_ends_first(self):
        script = f"kill -INT {os.getpid()}; touch begun; sleep 0.1; touch ended"
        with self.assertRaises(interrupts.Interrupted):
            hosts.on_all([self.host], lambda host: host.run(script))
        self.assertEqual(sorted(os.listdir(self.host.dir)), ["begun", "ended"])
        self.assertEqual(signal.getsignal(signal.SIGINT), signal.SIG_DFL, "a second one does not wait")

    def test_what_is_watched_ends_at_once(self):
        self.host.ssh = ["sh", "-c", f"kill -INT {os.getpid()}; exec sleep 600"]
        with self.assertRaises(interrupts.Interrupted):
            self.host.attach("")


class AnswersTest(unittest.TestCase):
    def test_an_endpoint_is_a_port_of_its_host(self):
        self.assertEqual(answers.endpoint_at("10.0.0.5", "10.0.0.5:7000"), "10.0.0.5:7000")
        self.assertEqual(answers.endpoint_at("::1", "[0:0::1]:7000"), "[::1]:7000")
        for said in ("10.0.0.6:7000", "10.0.0.5:0", "10.0.0.5:65536", "10.0.0.5:7000;reboot", "10.0.0.5:7000\n", "h0:1",
                     "10.0.0.5:\u0661", "10.0.0.5", "", ":1"):  # fmt: skip
            self.assertIsNone(answers.endpoint_at("10.0.0.5", said), said)

    def test_only_names_of_tasks_are_taken(self):
        said = "chief ps-0 worker-12 worker-01 worker-99999 ps--1 boss $(reboot) ../x"
        self.assertEqual(answers.tasks_in(said), ["chief", "ps-0", "worker-12"])

    def test_a_status_may_hold_anything(self):
        odd = '"state": 7, "pending": {"task": 1}, "tasks": [4, {"name": ["ps-0"]}], "chief": "h0:1", "x": 1'
        status = answers.Status(f"{{{odd}}}")
        self.assertEqual((status.state, status.error, status.pending), ("", "", []))
        self.assertEqual((status.chief_endpoint, status.servers), ("", {}))
        status = answers.Status('{"state": "RUN\\u001b[2J\\nNING", "pending": [{"task": "ps-0", "why": "is\\rout"}]}')
        self.assertEqual((status.state, status.pending), ("RUN?[2J; NING", ["ps-0 is?out"]))
        for nothing in ("", "[]", "7", "[" * 100_000):
            with self.assertRaises(ValueError):
                answers.Status(nothing)

    def test_words_begin_no_line_of_their_own(self):
        error = hosts.HostError(types.SimpleNamespace(name="h0"), "no\ncluster: all is well\r\x1b[A\n")
        self.assertEqual(str(error), "h0 failed: no; cluster: all is well??[A")


class InstallTest(unittest.TestCase):
    def complaint(self, host_lacks, programs):
        there = install.Install.__new__(install.Install)
        there.folder, there.files = "install-x", [types.SimpleNamespace(name=name) for name in programs]
        said = {"ldd install/downpour-cuda.so": "".join(f"{name}\n" for name in host_lacks)}
        host = types.SimpleNamespace(name="h2", slots={"worker": 1})
        host.run = lambda script, *_, **__: (0, said.get(script.partition(" |")[0], ""))
        with contextlib.redirect_stderr(io.StringIO()) as err:
            there.put_on(host)
        return err.getvalue()

    def test_who_has_a_gpu_and_cannot_use_it_is_named(self):
        lacks = "cluster: h2 has an NVIDIA driver, but its workers compute on the CPU, since there is no "
        with_module = [*install.PROGRAMS, install.CUDA_MODULE]
        self.assertIn(f"{lacks}downpour-cuda.so here", self.complaint([], install.PROGRAMS))
        self.assertIn(f"{lacks}libcublas.so.13 there", self.complaint(["libcublas.so.13", "$(reboot)"], with_module))
        self.assertEqual(self.complaint([], with_module), "")


if __name__ == "__main__":
    unittest.main()
