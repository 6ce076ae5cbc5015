"""Hosts for deploy/cluster: real sshd processes on loopback, one port, folder and name for each host."""

import getpass
import os
import shutil
import subprocess
import sys
import tempfile

from cluster import LONG, PROGRAMS, ROOT, TOOL, Process, ProcessTest, free_port, kill

SSHD = shutil.which("sshd") or shutil.which("/usr/sbin/sshd")
HOSTS = """
h0 role=chief addr=127.0.0.1 dir={folder}/h0   # comments are allowed
h1 role=ps slots=2 addr=127.0.0.1 dir={folder}/h1
h1 role=worker slots=2
h2 role=worker slots=2 addr=127.0.0.1 dir={folder}/h2
"""


def is_alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class DeployTest(ProcessTest):
    @classmethod
    def setUpClass(cls):
        """The programs as they are released: most of a built one's bytes are for debuggers."""
        cls.install = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="downpour-install-"))
        for program in (TOOL, *PROGRAMS.values()):
            subprocess.run(["strip", "-o", f"{cls.install}/{program.name}", program], check=True)

    def setUp(self):
        super().setUp()
        self.hosts = self.folder / "lab.hosts"
        self.hosts.write_text(HOSTS.format(folder=self.folder))

    def cluster(self, verb, *words):
        """(exit code, stdout, stderr)"""
        config = self.folder / "ssh_config"
        command = [sys.executable, ROOT / "deploy/cluster", verb, self.hosts, "--ssh-config", config, *words]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LONG)
        return done.returncode, done.stdout, done.stderr

    def up(self, *words):
        return self.cluster("up", self.job_file, "--install", self.install, "--port", self.port, *words)


class SshHostsTest(DeployTest):
    def setUp(self):
        super().setUp()
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # where it wants to stand once it has dropped its rights
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        self.ports = {name: free_port() for name in ("h0", "h1", "h2")}
        (self.folder / "ssh_config").write_text(
            "".join(f"Host {name}\n  Port {port}\n" for name, port in self.ports.items())
            + f"Host *\n  HostName 127.0.0.1\n  User {getpass.getuser()}\n  IdentityFile {self.folder}/user_key\n"
            "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
            "  KexAlgorithms curve25519-sha256\n"  # the usual one takes 0.1 s of processor time for each call
            f"  ConnectTimeout {LONG}\n  ServerAliveInterval {LONG}\n"
        )
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder}/host_key\nAuthorizedKeysFile {self.folder}/user_key.pub\nListenAddress 127.0.0.1\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nStrictModes no\nUsePAM no\nPidFile none\n"
            f"ForceCommand {self.folder}/login_shell\n"
        )
        (self.folder / "login_shell").write_text(self.LOGIN_SHELL)
        (self.folder / "login_shell").chmod(0o755)
        self.daemons = {name: self.start_sshd(name) for name in self.ports}
        self.port = free_port()
        self.write_job(training={"epochs": 100000}, checkpoint={"every": "1h"}, cluster={"workerCount": 3})
        self.addCleanup(self.kill_tasks)

    # What is run there goes through a login shell in which, as in csh, no quoting reaches over a line.
    LOGIN_SHELL = """#!/bin/sh
case $SSH_ORIGINAL_COMMAND in
*"
"* | *!*) echo "Unmatched '." >&2; exit 1 ;;
esac
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""

    def start_sshd(self, name):
        daemon = Process(self, [SSHD, "-D", "-e", "-f", self.folder / "sshd_config", "-p", self.ports[name]])
        daemon.wait_for_line("Server listening")
        return daemon

    def pids(self, pattern):
        """{file: pid} of those that were started; more may come and go meanwhile."""
        found = {}
        for file in self.folder.glob(pattern):
            try:
                found[file] = int(file.read_text().split()[0])
            except (FileNotFoundError, IndexError):  # it has just gone, or is not written yet
                continue
        return found

    def tasks(self):
        return {file.name: pid for file, pid in self.pids("h*/pids/*").items()}

    def kill_tasks(self):
        for pid in self.tasks().values():
            if is_alive(pid):
                kill(pid)
