"""Hosts on one machine: network namespaces on a bridge, each with a name, a folder and a link of its own, without DNS.

Nothing outlives the processes that hold the namespaces, and nothing is left on the machine: the bridge is in a
namespace, too.
"""

import pathlib
import shutil
import subprocess

from cluster import LONG, Process

HOSTS_FILE = "127.0.0.1 localhost\n"  # a host's own name means nothing here


def why_not():
    """Why no hosts can be made here; empty: they can."""
    missing = [program for program in ("ip", "unshare", "nsenter") if not shutil.which(program)]
    if missing:
        return f"{' and '.join(missing)} not installed (iproute2, util-linux)"
    tried = subprocess.run(
        ["unshare", "--net", "--uts", "--mount", "sh", "-ec",
         "ip link add name switch0 type bridge; mount --bind /etc /etc"],
        capture_output=True, text=True, timeout=LONG,
    )  # fmt: skip
    return "" if tried.returncode == 0 else f"no right to make network namespaces: {tried.stderr.strip()}"


class Namespace:
    """Network, host name and mounts of its own, for as long as a process holds them."""

    def __init__(self, test, prepare=""):
        script = f"set -e; {prepare}\nip link set lo up; echo ready; exec cat"
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        test.addCleanup(self.close)
        if self.holder.stdout.readline() != "ready\n":
            raise AssertionError("a namespace could not be made")

    def close(self):
        self.holder.kill()
        self.holder.communicate()

    def enter(self, *command):
        """The words that run a command inside."""
        return ["nsenter", f"--target={self.holder.pid}", "--net", "--uts", "--mount", *map(str, command)]

    def run(self, *command):
        return subprocess.run(self.enter(*command), capture_output=True, text=True, timeout=LONG)

    def ip(self, line):
        subprocess.run(self.enter("ip", *line.split()), check=True, timeout=LONG)


class Host:
    """One of a network's hosts. `folder` is its own; the programs are where they are."""

    def __init__(self, test, network, number):
        self.test, self.name, self.address = test, f"h{number}", f"10.77.0.{number + 1}"
        self.folder = pathlib.Path(test.folder) / self.name
        self.folder.mkdir()
        names, resolver = self.folder / "etc-hosts", self.folder / "etc-resolv.conf"
        names.write_text(HOSTS_FILE)
        resolver.write_text("")
        self.inside = Namespace(
            test,
            f"hostname {self.name}; mount --bind {names} /etc/hosts; "
            f"if [ -e /etc/resolv.conf ]; then mount --bind {resolver} /etc/resolv.conf; fi",
        )
        network.attach(self)

    def take_address(self, address):
        """In place of the one that it has, as a host may be given another one after its link was cut."""
        self.inside.ip("address flush dev e0")
        self.address = address
        self.inside.ip(f"address add {address}/24 dev e0")

    def start(self, *command):
        return Process(self.test, self.inside.enter(*command))

    def run(self, *command):
        """(exit code, stdout, stderr)."""
        done = self.inside.run(*command)
        return done.returncode, done.stdout, done.stderr


class Network:
    """A switch and the hosts at it."""

    def __init__(self, test):
        self.test, self.hosts = test, []
        self.switch = Namespace(test)
        self.switch.ip("link add name switch0 type bridge forward_delay 0")
        self.switch.ip("link set switch0 up")

    def add(self):
        host = Host(self.test, self, len(self.hosts))
        self.hosts.append(host)
        return host

    def attach(self, host):
        self.switch.ip(f"link add {host.name} type veth peer name e0 netns {host.inside.holder.pid}")
        self.switch.ip(f"link set {host.name} master switch0 up")
        host.take_address(host.address)
        host.inside.ip("link set e0 up")

    def cut(self, host):
        """Pulls the host's cable at the switch: it sees its own end go down as well."""
        self.switch.ip(f"link set {host.name} down")

    def drop(self, host):
        """What it says and hears is lost on the way; both ends' links stay up."""
        self.switch.ip(f"link set {host.name} nomaster")

    def heal(self, host):
        self.switch.ip(f"link set {host.name} master switch0 up")

