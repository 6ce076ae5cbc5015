"""How deploy/cluster reaches a host, and what interrupts it: no daemon is needed."""

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
import hosts  # noqa: E402
import interrupts  # noqa: E402


@unittest.skipUnless(shutil.which("ssh"), "ssh is not there: it is asked what a name stands for")
class AddressTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.hosts = self.folder / "lab.hosts"

    def address(self, line, *numbers):
        """Where the first host of a file is reached, its name meaning these."""
        self.hosts.write_text(f"{line} role=chief\nh1 role=ps\nh1 role=worker\n")
        options = types.SimpleNamespace(hosts=self.hosts, name="lab", ssh_config="/dev/null")
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
        first, second = hosts.read_hosts(types.SimpleNamespace(hosts=self.hosts, name="lab", ssh_config=str(config)))
        self.assertEqual(first.address(), "10.0.0.5")
        self.assertEqual(first.ssh[-3:], ["BatchMode=yes", "-o", "ServerAliveInterval=10"])
        self.assertEqual(second.ssh[-4:], ["-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10"])

    def test_a_folder_at_home_may_be_written_as_shells_have_it(self):
        for word, folder in (("~/lab", "lab"), ("~", "."), ("/x/~y", "/x/~y")):
            self.hosts.write_text(f"h0 role=chief dir={word}\nh1 role=ps\nh1 role=worker\n")
            options = types.SimpleNamespace(hosts=self.hosts, name="lab", ssh_config=None)
            self.assertEqual(hosts.read_hosts(options)[0].dir, folder)


class InterruptTest(unittest.TestCase):
    """What is there in place of ssh runs its script here."""

    def setUp(self):
        handler = signal.signal(signal.SIGINT, interrupts.INTERRUPTS.come)
        self.addCleanup(signal.signal, signal.SIGINT, handler)
        self.addCleanup(setattr, interrupts.INTERRUPTS, "number", None)
        self.host = hosts.Host("h0", types.SimpleNamespace(name="lab", ssh_config=None))
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


if __name__ == "__main__":
    unittest.main()
