"""The job service: its states and its bounds. No job is lost or started twice, whenever the service is killed."""

import functools
import io
import json
import pathlib
import random
import signal
import socket
import tarfile
import threading
import unittest
import urllib.request

from cluster import TOOL, Process, complete, kill
from faults import Orders
from job_service import OVER, ServiceTest

ENDLESS = {"training": {"epochs": 1_000_000}}


class JobServiceTest(ServiceTest):
    def test_a_job_runs_to_its_end_and_is_shown(self):
        self.start_service()
        self.assertEqual(self.ask("GET", "/v1/projects/p/jobs"), (200, {}))
        status, job = self.submit("first")
        self.assertEqual((status, job["state"]), (200, "QUEUED"))
        job = self.wait_for("first", "SUCCEEDED")
        self.assertLessEqual(job["createTime"], job["startTime"])
        self.assertLessEqual(job["startTime"], job["endTime"])
        self.assertTrue(pathlib.Path(job.pop("jobFolder")).is_dir())  # of one job alone
        self.assertEqual(self.ask("GET", "/v1/projects/p/jobs")[1]["jobs"], [job])
        asked = {"resourceNames": ["projects/p"], "filter": 'resource.labels.job_id="first"', "pageSize": 7}
        entries = []
        while True:
            status, page = self.ask("POST", "/v2/entries:list", asked)
            self.assertEqual(status, 200, page)
            entries += page["entries"]
            if "nextPageToken" not in page:
                break
            asked["pageToken"] = page["nextPageToken"]
        self.assertEqual(len({entry["insertId"] for entry in entries}), len(entries))
        self.assertEqual([e["timestamp"] for e in entries], sorted(e["timestamp"] for e in entries))
        tasks = {entry["resource"]["labels"]["task_name"] for entry in entries}
        self.assertEqual(tasks, {"service", "master-replica-0", "worker-replica-0", "ps-replica-0"})
        self.assertIn(b'downpour_jobs{state="SUCCEEDED"} 1\n', self.ask("GET", "/metrics")[1])

    def test_jobs_wait_their_turn_and_names_are_unique(self):
        self.start_service("--cores", "2")
        self.submit("one", **ENDLESS)
        self.wait_for("one", "RUNNING")
        self.submit("two")
        status, answer = self.submit("one")
        self.assertEqual((status, answer["error"]["status"]), (409, "ALREADY_EXISTS"))
        found = self.ask("GET", "/v1/projects/p/jobs?filter=state:RUNNING%20OR%20jobId%3Dtwo&pageSize=1")[1]
        self.assertEqual([job["jobId"] for job in found["jobs"]], ["two"])
        found = self.ask("GET", f"/v1/projects/p/jobs?pageToken={found['nextPageToken']}")[1]
        self.assertEqual([job["jobId"] for job in found["jobs"]], ["one"])
        self.assertEqual(self.job_of("two")["state"], "QUEUED")
        self.assertEqual(self.ask("DELETE", "/v1/projects/p/jobs/one")[0], 400, "it runs")
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs/one:cancel", {}), (200, {}))
        self.assertIn("request", self.wait_for("one", "CANCELLED")["errorMessage"])
        self.wait_for("two", "SUCCEEDED")
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs/one:cancel", {})[0], 400, "it is over")
        self.assertEqual(self.ask("DELETE", "/v1/projects/p/jobs/one"), (200, {}))
        self.assertFalse((self.root / "jobs/one").exists())

    def test_a_deleted_jobs_marks_are_none_of_the_next_one_of_its_name(self):
        self.start_service()
        job = "/v1/projects/p/jobs/one"
        entries = {"filter": 'resource.labels.job_id="one"', "pageSize": 1}

        def run_one(losses):
            """It fails at once; its numbers are as a chief's."""
            self.submit("one", data={"train": {"images": "/nothing"}})
            self.wait_for("one", "FAILED")
            lines = [{"kind": "train", "elapsed": i, "loss": loss} for i, loss in enumerate(losses)]
            (self.root / "jobs/one/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            log = self.ask("POST", "/v2/entries:list", entries | {"pageSize": 1000})[1]["entries"]
            return {entry["insertId"] for entry in log}

        self.submit("elder", data={"train": {"images": "/nothing"}})
        old_ids = run_one([1])
        history, logs = self.ask("GET", f"{job}/history")[1], self.ask("GET", f"{job}/logs")[1]
        after = {"history": f"{job}/history?after={history['mark']}", "logs": f"{job}/logs?after={logs['mark']}"}
        self.assertEqual(self.ask("GET", after["history"])[1]["train"], {})
        self.assertEqual(self.ask("GET", after["logs"])[1]["entries"], [])
        next_entries = self.ask("POST", "/v2/entries:list", entries)[1]["nextPageToken"]
        next_jobs = self.ask("GET", "/v1/projects/p/jobs?pageSize=1")[1]["nextPageToken"]
        self.ask("DELETE", job)

        new_ids = run_one([2, 3])
        self.assertFalse(old_ids & new_ids, "whoever follows a log would take them for shown ones")
        history = self.ask("GET", after["history"])[1]
        self.assertEqual((history["restarted"], history["train"].get("loss")), (True, [2, 3]))
        answer = self.ask("GET", after["logs"])[1]
        self.assertEqual((answer["restarted"], answer["entries"]), (True, self.ask("GET", f"{job}/logs")[1]["entries"]))
        for status, answer in (self.ask("POST", "/v2/entries:list", entries | {"pageToken": next_entries}),
                               self.ask("GET", f"/v1/projects/p/jobs?pageToken={next_jobs}")):  # fmt: skip
            self.assertEqual(status, 400, answer)
            self.assertIn("of another list, or its job was deleted: list again", answer["error"]["message"])
        mark = new_ids.pop().rsplit("-")[-1]  # the job's own, with what is no place in its log
        for token in ("1", "x.y", "none", f"{mark}.x"):
            for status, answer in (self.ask("POST", "/v2/entries:list", entries | {"pageToken": token}),
                                   self.ask("GET", f"/v1/projects/p/jobs?pageToken={token}")):  # fmt: skip
                self.assertEqual((status, answer["error"]["status"]), (400, "INVALID_ARGUMENT"), token)

    def test_the_status_of_a_job_that_is_cancelled_while_it_starts_says_its_state(self):
        self.start_service()
        for number in range(4):
            name = f"early{number}"
            self.submit(name, **ENDLESS)
            location = self.root / f"jobs/{name}/chief.json"
            while number > 0 and not location.exists():
                threading.Event().wait(0.005)
            self.ask("POST", f"/v1/projects/p/jobs/{name}:cancel", {})
            while True:
                status, answer = self.ask("GET", f"/v1/projects/p/jobs/{name}/status")
                self.assertEqual(status, 200, answer)
                if answer["state"] == "CANCELLED":
                    break
                threading.Event().wait(0.01)

    def test_its_own_log_is_streamed_and_keeps_its_times(self):
        self.start_service()
        self.submit("long", **ENDLESS)

        def said():
            """What `downpour run` said, whose lines have no times of their own."""
            asked = {"filter": 'resource.labels.job_id="long" AND labels.task_name="service" AND severity=DEFAULT'}
            entries = self.ask("POST", "/v2/entries:list", asked)[1].get("entries", [])
            return [(entry["timestamp"], entry["textPayload"]) for entry in entries]

        while not (first := said()):
            self.assertNotIn(self.job_of("long").get("state"), OVER)
            threading.Event().wait(0.05)
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        job = self.wait_for("long", "CANCELLED")
        self.assertLess(first[0][0], job["endTime"])
        self.assertEqual(said()[:len(first)], first)

    def test_what_is_short_is_said_of_jobs_that_wait_and_of_those_that_never_fit(self):
        self.start_service("--cores", "8", "--memory", "200MiB", "--gpus", "0")
        self.submit("one", **ENDLESS)
        self.wait_for("one", "RUNNING")
        self.submit("two", **ENDLESS)  # three processes and a small model: more than half of it
        self.submit("three")
        while "stateMessage" not in (job := self.job_of("three")):
            threading.Event().wait(0.05)
        behind = "waits behind two, which came before it; it is number 2 in the queue"
        self.assertEqual((job["state"], job["stateMessage"]), ("QUEUED", behind))
        waits = r"waits for about 12\d\.\d MiB of memory, 7\d\.\d MiB of 200\.0 MiB free"
        self.assertRegex(self.job_of("two")["stateMessage"], waits)
        self.assertRegex(self.jobs("list"), f"two +QUEUED .* {waits}")
        self.assertRegex(self.jobs("describe", "two"), waits)
        self.write_job(cluster={"workerCount": 9, "parameterServerCount": 1})
        self.jobs("submit", "--file", self.job_file, "large")
        self.assertIn("of memory, and jobs may have 200.0 MiB here", self.wait_for("large", "FAILED")["errorMessage"])
        body = {"jobId": "gpus", "jobFile": json.dumps(self.job | {"cluster": {"workerCount": 1}}),
                "trainingInput": {"masterConfig": {"acceleratorConfig": {"count": "2"}}}}  # fmt: skip
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs", body)[0], 200)
        self.assertIn("it asks for 2 GPUs, and jobs may have 0", self.wait_for("gpus", "FAILED")["errorMessage"])

    def test_a_running_job_continues_while_the_service_is_dead(self):
        self.start_service()
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        kill(self.service.pid)
        self.service.end()
        self.start_service()
        while not self.starts_of("long"):  # it runs before its chief does
            self.assertEqual(self.job_of("long")["state"], "RUNNING")
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        self.wait_for("long", "CANCELLED")
        self.assertEqual(self.starts_of("long"), 1)

    def test_what_ended_while_the_service_was_dead_is_found(self):
        orders = Orders(self.folder)
        self.start_service(around=orders.obeyed)
        orders.give("die-at", "spawned", 1, "downpour:/bin/sh")
        body = {"jobId": "short", "jobFile": self.job_text()}
        self.asked_for_the_last_time("POST", "/v1/projects/p/jobs", body)
        self.assertEqual(self.service.finish()[0], -signal.SIGKILL)
        mark = self.root / "jobs/short/service/exit"
        while not mark.exists():
            threading.Event().wait(0.05)
        self.start_service()
        self.wait_for("short", "SUCCEEDED")
        self.assertEqual(self.starts_of("short"), 1)

    def jobs(self, verb, *words, expected=0):
        """What `downpour jobs` says on stdout and stderr."""
        code, out, err = self.tool("jobs", verb, *words, "--root", self.root)
        self.assertEqual(code, expected, out + err)
        return out + err

    def test_the_verbs_do_it_all_with_or_without_a_service(self):
        self.write_job(cluster={"workerCount": 1, "parameterServerCount": 1})
        submit = ("submit", "--file", self.job_file)
        for served in (False, True):
            if served:
                self.start_service()
            name = f"served{served}"
            self.assertIn(f"Job {name} is QUEUED", self.jobs(*submit, name, "--labels", "team=a,stage=b"))
            self.jobs("wait", name)
            self.assertRegex(self.jobs("list", "--filter", "labels.team=a AND state=SUCCEEDED"), f"{name} +SUCCEEDED")
            self.assertEqual(json.loads(self.jobs("describe", name))["labels"], {"team": "a", "stage": "b"})
            self.assertIn("master-replica-0", self.jobs("stream-logs", name))
            self.assertIn("it is SUCCEEDED", self.jobs("cancel", name, expected=1))
            self.assertIn("already", self.jobs(*submit, name, expected=1))
            self.assertEqual(self.starts_of(name), 1)
            self.assertEqual(self.jobs("delete", name), f"Job {name} is deleted, with its folder\n")
            self.assertIn("there is no job", self.jobs("describe", name, expected=1))
        self.write_endless_job(cluster={"workerCount": 1, "parameterServerCount": 1})
        self.jobs(*submit, "long")
        self.assertRegex(self.jobs("cancel", "long"), r"^Job long is CANCELL(ED|ING)\n$")
        self.assertIn("CANCELLED", self.jobs("wait", "long", expected=1))

    def test_labels_are_refused_by_name_when_a_job_is_made_and_when_it_is_changed(self):
        self.start_service()
        body = {"jobId": "one", "jobFile": self.job_text()}
        job = "/v1/projects/p/jobs/one"
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs", body | {"labels": {"team": "a"}})[0], 200)
        for method, path, more in (("POST", "/v1/projects/p/jobs", body), ("PATCH", f"{job}?updateMask=labels", {})):
            for labels, why in (({"Team": "a"}, "labels Team=a: the key must be "),
                                ({"team": "A"}, "labels team=A: the value must be ")):  # fmt: skip
                status, answer = self.ask(method, path, more | {"labels": labels})
                self.assertEqual((status, answer["error"]["status"]), (400, "INVALID_ARGUMENT"))
                self.assertIn(why, answer["error"]["message"])
        status, answer = self.ask("PATCH", f"{job}?updateMask=labels", {"label": {"team": "b"}})
        self.assertEqual(status, 400)
        self.assertEqual(answer["error"]["message"], "label is no field of a job; did you mean labels?")
        self.assertEqual(self.job_of("one")["labels"], {"team": "a"})
        self.assertEqual(self.ask("PATCH", f"{job}?updateMask=labels", {"jobId": "one", "state": "FAILED"})[0], 200)
        self.assertNotIn("labels", self.job_of("one"), "a job that was read, without its labels")

    def test_who_waits_is_told_each_change_once(self):
        self.start_service("--cores", "2")
        for name in ("one", "two", "three"):
            self.submit(name, **ENDLESS)
        self.wait_for("one", "RUNNING")
        while "stateMessage" not in self.job_of("three"):
            threading.Event().wait(0.05)
        verbs = ("wait", "stream-logs")
        followers = [Process(self, [TOOL, "jobs", verb, "three", "--root", self.root]) for verb in verbs]
        behind = "waits behind two, which came before it; it is number 2 in the queue"
        for follower in followers:
            follower.wait_for_line(f"Job three is QUEUED: {behind}")
        self.jobs("cancel", "two")
        for follower in followers:
            follower.wait_for_line("Job three is QUEUED: waits for 2 cores, 0 of 2 free")
        self.jobs("cancel", "one")
        for follower in followers:
            follower.wait_for_line("Job three is RUNNING")
        self.jobs("cancel", "three")
        for follower in followers:
            self.assertEqual(follower.finish()[0], 1, follower.said)
            self.assertIn("downpour jobs: the job is CANCELLED: cancelled on request", follower.said)
            states = [line for line in follower.said.splitlines() if line.startswith("Job three is ")]
            self.assertEqual(len(states), len(set(states)), follower.said)
        self.submit("four")
        code, out, err = self.tool("jobs", "wait", "four", "--root", self.root)
        self.assertEqual((code, out, err.splitlines()[-1]), (0, "", "Job four is SUCCEEDED"), err)

    def test_what_the_verbs_refuse_is_told_with_its_remedy(self):
        bad = self.write_job(training={"batchSize": 0})
        self.assertIn("training.batchSize", self.jobs("submit", "bad", "--file", bad, expected=78))
        code, _, err = self.tool("jobs", "list", "--service", "http://127.0.0.1:1")
        self.assertEqual(code, 1)
        self.assertIn("does not answer: start it by downpour serve", err)

    def test_one_root_has_one_service(self):
        self.start_service()
        other = Process(self, [TOOL, "serve", "--root", self.root])
        self.assertEqual(other.finish()[0], 1, other.said)
        self.assertIn("a service is at work", other.said)

    def test_others_are_refused_unless_there_are_a_token_and_tls(self):
        other = Process(self, [TOOL, "serve", "--root", self.root, "--listen", "0.0.0.0:7000"])
        self.assertEqual(other.finish()[0], 2, other.said)
        self.assertIn("give a token file", other.said)

    def test_pages_of_other_sites_are_refused(self):
        self.start_service()
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            status, answer = self.ask("GET", "/v1/projects/p/jobs", headers=headers)
            self.assertEqual((status, answer["error"]["status"]), (403, "PERMISSION_DENIED"), headers)
        # What a refused request's body says is no request.
        inner = f"GET /v1/projects/p/jobs HTTP/1.1\r\nHost: {self.address}\r\n\r\n"
        text = f"POST /x HTTP/1.1\r\nHost: {self.address}\r\nOrigin: http://evil.example\r\n"
        with socket.create_connection(("127.0.0.1", int(self.address.split(":")[1]))) as connection:
            connection.sendall(f"{text}Content-Length: {len(inner)}\r\n\r\n{inner}".encode())
            answer = b""
            try:
                while part := connection.recv(65536):
                    answer += part
            except ConnectionResetError:
                pass
        self.assertLessEqual(answer.count(b"HTTP/1.1"), 1)
        self.assertNotIn(b"200 OK", answer)

    def test_a_job_that_is_resumed_by_hand_is_shown_as_it_is(self):
        self.start_service()
        self.submit("one", **ENDLESS)
        self.wait_for("one", "RUNNING")
        self.jobs("cancel", "one")
        self.wait_for("one", "CANCELLED")
        self.job_dir = self.root / "jobs/one"
        run = Process(self, [TOOL, "run", self.job_file, "--job-dir", self.job_dir, "--resume"])
        run.wait_for_line("chief at ")
        self.wait_until(complete)
        job = self.job_of("one")
        self.assertEqual((job["state"], job.get("endTime")), ("RUNNING", None))
        self.assertIn("resumed by hand in its folder, where `downpour stop --job-dir ", job["stateMessage"])
        path = "/v1/projects/p/jobs/one"
        for status, answer in (self.ask("POST", path + ":cancel", {}), self.ask("DELETE", path)):
            self.assertEqual(status, 400)
            self.assertIn("` ends it", answer["error"]["message"])
        run.signal(signal.SIGTERM)
        run.finish()
        job = self.job_of("one")
        self.assertEqual(job["state"], "CANCELLED")
        self.assertIn("SIGTERM", job["errorMessage"])

    def test_hostile_requests_cost_nothing(self):
        self.start_service()
        jobs = "/v1/projects/p/jobs"
        for method, path, body, status in [
            ("POST", jobs, b"[" * 100_000, 400),
            ("POST", jobs, b"{", 400),
            ("POST", jobs, {"jobId": "../x", "jobFile": "name: x"}, 400),
            ("POST", jobs, b'{"jobId": "' + b"x" * 3_000_000 + b'"}', 413),
            ("GET", jobs + "/none", None, 404),
            ("GET", jobs + "?filter=%28", None, 400),
            ("GET", jobs + "?pageSize=-1", None, 400),
            ("GET", "/" + "a" * 7000, None, 404),
            ("PATCH", jobs + "/none?updateMask=state", {}, 400),
            ("POST", "/v2/entries:list", {"filter": ""}, 400),
            ("GET", "/b/models/o/..%2F..%2Fjobs.sqlite?alt=media", None, 400),
            ("POST", "/upload/storage/v1/b/models/o?uploadType=media&name=..%2Fx", b"x", 400),
            ("POST", "/upload/storage/v1/b/models/o?uploadType=media&name=%2Fetc%2Fx", b"x", 400),
            ("POST", "/upload/storage/v1/b/..%2Fx/o?uploadType=media&name=x", b"x", 404),
            ("PUT", "/upload/storage/v1/b/models/o?upload_id=..%2Fx", b"x", 404),
        ]:
            try:
                answered, answer = self.ask(method, path, body)
            except OSError:  # it was cut off while it still wrote
                self.assertEqual(status, 413, path)
                continue
            self.assertEqual(answered, status, (path, answer))
            self.assertEqual(answer["error"]["code"], status)
        self.assertEqual(self.ask("GET", jobs), (200, {}), "it serves as before")

    def test_an_object_comes_in_parts_and_goes_whole(self):
        self.start_service()
        content = random.Random(1).randbytes(300_000)
        at = f"http://{self.address}"
        path = "/resumable/upload/storage/v1/b/models/o?uploadType=resumable&name="

        def begin(name):
            with urllib.request.urlopen(urllib.request.Request(at + path + name, b"{}", method="POST")) as response:
                return response.headers["Location"].removeprefix(at)

        self.assertEqual(self.ask("PUT", begin("whole"), content)[1]["size"], "300000", "all of it at once")
        upload = begin("a%2Fb")
        part = {"Content-Range": "bytes 0-99999/300000"}
        self.assertEqual(self.ask("PUT", upload, content[:100_000], part)[0], 308)
        self.assertEqual(self.ask("GET", "/b/models/o/a%2Fb")[0], 404, "half an object is none")
        self.assertEqual(self.ask("PUT", upload, b"", {"Content-Range": "bytes */300000"})[0], 308)
        part = {"Content-Range": "bytes 50000-299999/300000"}
        status, answer = self.ask("PUT", upload, content[50_000:], part)
        self.assertEqual((status, answer["size"]), (200, "300000"))
        self.assertEqual(self.ask("GET", "/download/storage/v1/b/models/o/a%2Fb?alt=media"), (200, content))
        self.assertEqual(self.ask("GET", "/storage/v1/b/models/o?prefix=a")[1]["items"][0]["name"], "a/b")

    def test_a_program_that_never_comes_to_fit_fails_by_its_line_once_its_time_is_over(self):
        self.start_service()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, text in (("__init__", b""), ("task", b"import threading\nthreading.Event().wait()\n")):
                entry = tarfile.TarInfo(f"t-0/t/{name}.py")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        self.ask("POST", "/upload/storage/v1/b/models/o?uploadType=media&name=t.tar.gz", packed.getvalue())
        body = {"jobId": "hangs", "trainingInput": {
            "scaleTier": "BASIC", "pythonModule": "t.task", "packageUris": ["gs://models/t.tar.gz"],
            "scheduling": {"maxRunningTime": "3s"}}}  # fmt: skip
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs", body)[0], 200)
        self.assertRegex(self.wait_for("hangs", "FAILED")["errorMessage"],
                         r"no model in the 3 s of scheduling.maxRunningTime: at t/task.py:2, in <module>: thr")

    def test_a_package_that_would_leave_its_folder_fails_the_job_by_name(self):
        self.start_service()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.addfile(tarfile.TarInfo("t-0/../../../../stolen"), io.BytesIO())
        self.ask("POST", "/upload/storage/v1/b/models/o?uploadType=media&name=t.tar.gz", packed.getvalue())
        body = {"jobId": "bad", "trainingInput": {"scaleTier": "BASIC", "pythonModule": "t.task",
                                                  "packageUris": ["gs://models/t.tar.gz"]}}  # fmt: skip
        self.assertEqual(self.ask("POST", "/v1/projects/p/jobs", body)[0], 200)
        self.assertIn("outside its folder", self.wait_for("bad", "FAILED")["errorMessage"])

    def test_whenever_it_is_killed_no_job_is_lost_or_started_twice(self):
        begin = functools.partial(self.start_service, "--cores", "4")
        self.kill_by_chance(begin, kills=25, jobs=8, epochs=(1, 4, 12), most_wait=0.4)


if __name__ == "__main__":
    unittest.main()
