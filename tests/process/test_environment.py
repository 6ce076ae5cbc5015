"""Roles that are told nothing on their command lines: other launchers' variables and a cluster file say it all."""

import json
import os
import signal
import unittest

from cluster import ProcessTest, complete, free_port, joined


class EnvironmentTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.write_job()

    def start_told(self, role, *flags, **variables):
        os.environ.update(variables)
        process = self.start(role, f"--trace_dir={self.job_dir}/trace", *flags)
        for name in variables:
            del os.environ[name]
        return process

    def chief_flags(self):
        return f"--job={self.job_file}", f"--job_dir={self.job_dir}"

    def check_cluster(self, start_chief, *starts):
        """A cluster of tasks that start so, one after the other: the last server last, when all others have joined."""
        *early, last = starts
        tasks = [start() for start in early]
        tasks.append(start_chief())
        tasks[-1].wait_for_line("waits for its tasks at")
        self.wait_until(lambda s: joined(s) == len(early))
        for task in [*tasks, last()]:
            self.assertEqual(task.finish()[0], 0, (task.command, task.said))
        self.check_success()

    def test_tf_config_says_it_all(self):
        # Another size than the job file's, which the environment beats.
        self.write_endless_job()
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(5)]
        cluster = {"chief": addresses[:1], "ps": addresses[1:2], "worker": addresses[2:]}

        def start(kind, index, *flags):
            config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
            return self.start_told(kind, *flags, TF_CONFIG=json.dumps(config))

        tasks = [start("worker", i) for i in range(3)] + [start("ps", 0), start("chief", 0, *self.chief_flags())]
        tasks[-1].wait_for_line("waits for its tasks at")
        status = self.wait_until(complete)
        self.assertEqual(status["chief"]["endpoint"], addresses[0])
        names = {task["name"]: task["pid"] for task in status["tasks"]}
        self.assertEqual(sorted(names), ["ps-0", "worker-0", "worker-1", "worker-2"])
        self.assertEqual(names["worker-1"], tasks[1].pid)

        file = self.folder / "cluster.json"
        file.write_text(json.dumps({"cluster": cluster}))
        code, out, _ = self.tool("doctor", self.job_file, "--job-dir", self.job_dir, "--cluster", file)
        self.assertEqual(code, 0, out)
        answer = [f"{name} at {address} answers" for name, address in zip(("chief", "ps-0"), addresses)]
        for part in (*answer, "small is RUNNING", "off the chief's"):
            self.assertIn(part, out)
        tasks[-1].signal(signal.SIGTERM)
        self.assertEqual(tasks[-1].finish()[0], 143, tasks[-1].said)

    def test_only_the_schedulers_address_is_known(self):
        def start(role, dmlc_role, *flags):
            return self.start_told(role, *flags, DMLC_ROLE=dmlc_role, DMLC_PS_ROOT_URI="127.0.0.1",
                                   DMLC_PS_ROOT_PORT=port, DMLC_NUM_WORKER="2", DMLC_NUM_SERVER="2")  # fmt: skip

        port = str(free_port())
        server, worker = (lambda: start("ps", "server")), (lambda: start("worker", "worker"))
        self.check_cluster(lambda: start("chief", "scheduler", *self.chief_flags()), worker, worker, server, server)

    def test_torchruns_variables(self):
        port = str(free_port())
        told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
        member = lambda role, rank: lambda: self.start_told(role, RANK=str(rank), **told)
        members = [member(role, i) for role in ("worker", "ps") for i in (1, 0)]
        chief = lambda: self.start_told("chief", "--set=cluster.workerCount=2", *self.chief_flags(), **told)
        self.check_cluster(chief, *members)

    def test_a_cluster_file_and_an_index(self):
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(3)]
        file = self.folder / "cluster.json"
        cluster = {"chief": addresses[:1], "ps": addresses[1:], "worker": ["a:1", "b:1"]}
        file.write_text(json.dumps({"cluster": cluster}))
        flag = f"--cluster={file}"
        member = lambda role, i: lambda: self.start_told(role, flag, f"--index={i}")
        members = [member(role, i) for role in ("worker", "ps") for i in range(2)]
        self.check_cluster(lambda: self.start_told("chief", flag, *self.chief_flags()), *members)

    def test_a_bad_environment_is_told_with_every_place(self):
        for role in ("chief", "ps", "worker"):
            task = self.start_told(role, TF_CONFIG='{"cluster": {"ps": ["h"], "wrker": []}}', DMLC_ROLE="boss")
            self.assertEqual(task.finish()[0], 2)
            misspelt = "cluster.wrker: unknown key; did you mean worker?"
            for part in ("TF_CONFIG:1:21: cluster.ps.0: ", misspelt, "DMLC_ROLE: "):
                self.assertIn(part, task.said)


if __name__ == "__main__":
    unittest.main()
