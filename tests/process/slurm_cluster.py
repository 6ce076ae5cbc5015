"""A Slurm cluster of one node on this machine: Debian's munged, slurmctld and slurmd, configured by the test."""

import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

from cluster import LONG, Process, free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo")


def find(program):
    return shutil.which(program) or shutil.which(f"/usr/sbin/{program}")


MISSING = [program for program in PROGRAMS if not find(program)]
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
MpiDefault=none
MessageTimeout=5
MinJobAge=60
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=8000
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE
"""


class SlurmCluster:
    def __init__(self, test, folder, cores):
        self.test, self.folder = test, folder
        folder.mkdir()
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        folder.chmod(0o755)  # munged wants its socket where all may come
        self.munged = Process(test, [find("munged"), "--foreground", "--force", f"--key-file={key}",
                                     f"--socket={folder}/munge.sock", f"--pid-file={folder}/munge.pid",
                                     f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"])  # fmt: skip
        host = socket.gethostname().split(".")[0]
        config = folder / "slurm.conf"
        config.write_text(CONFIG.format(host=host, user=getpass.getuser(), folder=folder, cores=cores,
                                        ctld_port=free_port(), slurmd_port=free_port()))  # fmt: skip
        os.environ["SLURM_CONF"] = str(config)
        test.addCleanup(os.environ.pop, "SLURM_CONF", None)
        test.addCleanup(self.kill_what_is_left, f"SLURM_CONF={config}".encode())
        self.start_controller("-c")
        self.slurmd = Process(test, [find("slurmd"), "-D"])
        test.addCleanup(self.end_jobs)
        self._wait(lambda said: "idle" in said or self.slurmd_has_ended(), "sinfo", "--noheader", "--format=%T")
        if self.slurmd_has_ended():
            test.skipTest(f"slurmd does not run here: {self.slurmd.said[-300:]}")

    def slurmd_has_ended(self):
        """As where no cgroup file system is mounted."""
        return self.slurmd.child.poll() is not None

    def start_controller(self, *words):
        self.controller = Process(self.test, [find("slurmctld"), "-D", *words])
        self.wait_for("UP", "scontrol", "ping")

    def stop_controller(self):
        """It writes down what it knows: one that is killed may forget jobs, which the next one ends only by and by."""
        self.controller.child.terminate()
        self.controller.child.wait(timeout=LONG)

    def start_another_controller(self):
        """In place of one that has ended."""
        self.start_controller()
        self.test.addCleanup(self.end_jobs)  # while this one lives: what is left of a run would go on writing

    def end_jobs(self):
        """No run outlives its test."""
        self.ask("scancel", "--signal=KILL", "--full", f"--user={getpass.getuser()}")
        self.ask("scancel", f"--user={getpass.getuser()}")
        self.wait_for_none("squeue", "--noheader")

    def kill_what_is_left(self, mark):
        """Jobs that no controller knows, once slurmd has ended: whatever has the mark in its environment."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                pass  # it has just ended, or is somebody else's

    def ask(self, *command):
        """What it says on stdout; empty where the controller does not answer."""
        return subprocess.run(command, capture_output=True, text=True, timeout=LONG).stdout

    def wait_for(self, words, *command):
        self._wait(lambda said: words in said, *command)

    def wait_for_none(self, *command):
        self._wait(lambda said: not said.strip(), *command)

    def _wait(self, is_good, *command):
        until = time.monotonic() + LONG
        while not is_good(said := self.ask(*command)):
            if time.monotonic() > until:
                raise AssertionError(f"{command} says {said!r}; slurmctld: {self.controller.said[-2000:]}")
            threading.Event().wait(0.1)

    def jobs(self):
        """(number, state) of all that the controller knows."""
        lines = self.ask("squeue", "--noheader", "--states=all", "--format=%i %T").splitlines()
        return [tuple(line.split()) for line in lines]
