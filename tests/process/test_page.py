"""The service's web page: people submit, watch, cancel; nothing that a job says becomes a part of it."""

import json
import subprocess
import threading
import unittest

import browser
from browser import Browser
from cluster import ENDLESS, free_port, kill, merged
from job_service import BATCH, RATE, ServiceTest

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def write_history(folder, seconds, tasks):
    """As a chief writes it; the page must cope with any, so it says what no chief would as well."""
    lines = [{"kind": "job", "time": 1, "run": "0" * 16, "name": HOSTILE, "hyperparameters": {}}]
    for s in range(seconds):
        at = {"time": s, "elapsed": s, "step": 40 * s}
        lines.append(at | {"kind": "train", "loss": 2 / (1 + s), "examplesPerSecond": 900 + s % 7, "staleness": 2,
                           "learningRate": 0.1})  # fmt: skip
        lines.append(at | {"kind": "tasks", "tasks": {t: {"cpu": 0.9, "memoryBytes": 10**8 + s} for t in tasks}})
        if s % 10 == 9:
            lines.append(at | {"kind": "eval", "epoch": s // 10, "loss": 2.1 / (1 + s), "accuracy": 1 - 1 / (1 + s),
                               "metrics": {"top5": 0.9, HOSTILE: 1 + s}})  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text + "no JSON\n[]\n" + '{"kind": "train", "elapsed": 1e999}\n')


class AskedTest(ServiceTest):
    def open(self, path, headers=None):
        """(status, headers) of a GET."""
        import http.client

        connection = http.client.HTTPConnection(self.address)
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        response.read()
        return response.status, response.headers

    def test_a_browser_is_told_to_run_nothing_else(self):
        self.start_service()
        for path in ("/", "/page/main.js", "/page/style.css", "/v1/projects/p/jobs", "/nothing"):
            _, headers = self.open(path)
            policy = headers["Content-Security-Policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertIn("frame-ancestors 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff", path)
        self.assertEqual(self.open("/")[1]["Content-Type"], "text/html; charset=utf-8")

    def test_answers_are_compressed_by_gzip_alone(self):
        self.start_service()
        for wanted, given in (("gzip, deflate, br", "gzip"), ("br", None), ("identity", None),
                              ("gzip;q=0", None)):  # fmt: skip
            headers = self.open("/v1/projects/p/jobs", {"Accept-Encoding": wanted})[1]
            self.assertEqual(headers["Content-Encoding"], given, wanted)

    def test_other_sites_may_link_to_the_page_and_read_or_change_nothing(self):
        self.start_service()
        self.submit("one", **ENDLESS)
        elsewhere = {"Origin": "http://localhost:1"}
        job = "/v1/projects/p/jobs/one"
        self.assertEqual(self.open("/", {"Sec-Fetch-Site": "cross-site"})[0], 200)
        self.assertEqual(self.open("/", {"Host": "evil.example"})[0], 403, "a name that was bound again")
        for path in ("/status", "/history", "/logs", "/checkpoints"):
            self.assertEqual(self.open(job + path, {"Sec-Fetch-Site": "cross-site"})[0], 403, path)
        for method, path in (("POST", ":cancel"), ("POST", ":checkpoint"), ("DELETE", "")):
            self.assertEqual(self.ask(method, job + path, {}, elsewhere)[0], 403, method + path)
        self.assertNotIn(self.job_of("one")["state"], ("CANCELLING", "CANCELLED"))

    def test_the_list_has_pages_and_counts(self):
        self.start_service("--cores", "1")
        self.submit("first", **ENDLESS)
        for i in range(5):
            self.submit(f"more{i}")
        self.wait_for("first", "RUNNING")
        self.ask("POST", "/v1/projects/p/jobs/more4:cancel", {})
        overview = "/v1/projects/p/jobs:overview"
        answer = self.ask("GET", f"{overview}?count=2&from=1")[1]
        self.assertEqual([job["jobId"] for job in answer["jobs"]], ["more3", "more2"])
        self.assertEqual((answer["total"], answer["states"]), (6, {"RUNNING": 1, "QUEUED": 4, "CANCELLED": 1}))
        answer = self.ask("GET", f"{overview}?state=QUEUED&filter=jobId:more")[1]
        self.assertEqual((answer["total"], answer["states"]), (4, {"QUEUED": 4, "CANCELLED": 1}))
        self.assertEqual(self.ask("GET", f"{overview}?from=x")[0], 400)

    def test_a_checkpoint_is_written_when_somebody_wants_one(self):
        self.start_service()
        self.submit("one", **merged(ENDLESS, {"checkpoint": {"every": "0s"}}))
        self.wait_for("one", "RUNNING")
        job = "/v1/projects/p/jobs/one"
        until_it_trains = 600
        for _ in range(until_it_trains):
            status, answer = self.ask("POST", f"{job}:checkpoint", {})
            if status == 200:
                break
            self.assertIn("does not run yet", answer["error"]["message"])
            threading.Event().wait(0.1)
        self.assertIn("a checkpoint of all that is committed by now begins", answer["message"])
        status = lambda: self.ask("GET", f"{job}/status")[1].get("status", {})
        while not status().get("checkpoint", {}).get("round"):
            threading.Event().wait(0.1)
        [checkpoint] = self.ask("GET", f"{job}/checkpoints")[1]["checkpoints"]
        self.assertEqual(checkpoint["state"], "complete")
        self.ask("POST", f"{job}:cancel", {})
        self.wait_for("one", "CANCELLED")
        self.assertEqual(self.ask("POST", f"{job}:checkpoint", {})[0], 400)
        self.assertEqual(self.ask("GET", f"{job}/status")[1]["summary"]["state"], "CANCELLED")


@unittest.skipIf(browser.WHY_NOT, browser.WHY_NOT)
class PageTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.start_service()
        self.browser = Browser(self, self.address)

    def status_of(self, name):
        return self.ask("GET", f"/v1/projects/p/jobs/{name}/status")[1].get("status", {})

    def server_where_all_run(self, name, server):
        """Its pid; None while a task, or the chief's answer, is missing."""
        tasks = self.status_of(name).get("tasks", [])
        pids = {task["name"]: task["pid"] for task in tasks if task["state"] == "RUNNING"}
        return pids[server] if len(pids) == 4 else None

    def test_submit_watch_a_ps_being_killed_follow_logs_cancel(self):
        page = self.browser
        page.open("/")
        page.wait_for_text(".empty", "There is no job yet")
        page.check("empty")
        page.find("#nav-submit").click()
        page.find("#name").send_keys("watched")
        text = page.find("#text")
        text.send_keys("model: 1")
        page.find("form .primary").click()
        page.wait_for_text(".form .trouble", "jobFile:1")
        page.check("submit")
        wide = self.job_text(cluster={"workerCount": 2, "parameterServerCount": 2}, **ENDLESS)
        page.run("arguments[0].value = arguments[1]", text, wide)
        page.find("form .primary").click()

        page.wait_for_text(".badge", "Running")
        page.wait_for_text("#tasks tbody", "ps-1")
        kill(page.until(lambda: self.server_where_all_run("watched", "ps-1"), "all run"))
        page.wait_for_text("#failures .lines", "ps-1")
        page.wait_for_text("#failures .dim", "1 ps replaced")
        page.until(lambda: page.run("return document.querySelectorAll('#curves .line-0').length >= 3"), "its curves")
        page.wait_for_text("#tasks .legend", "worker-1")

        page.run("document.querySelector('#log-task').value = 'ps-replica-1'")
        page.run("document.querySelector('#log-task').dispatchEvent(new Event('change'))")
        page.until(lambda: page.run(
            "const said = [...document.querySelectorAll('.entry .task')].map((task) => task.textContent);"
            "return said.length > 0 && said.every((task) => task === 'ps-1')"), "the log of ps-1 alone")  # fmt: skip
        page.button("Checkpoint now").click()
        page.wait_for_text(".answer", "A checkpoint of all that is committed by now begins")
        page.wait_for_text("#checkpoints tbody", "Complete")
        page.check("running")
        page.open("/")
        page.wait_for_text("tbody", "Running")
        page.wait_for_text("tbody .percent", " %")
        page.check("list")
        page.find("tbody a").click()
        page.button("Cancel").click()
        page.check("asked")
        page.button("Cancel the job").click()
        page.wait_for_text(".badge", "Cancelled")
        self.assertEqual(self.wait_for("watched", "CANCELLED")["errorMessage"], "cancelled on request")
        page.open("/?job=watched")  # late
        page.wait_for_text("#failures .lines", "ps-1")
        page.wait_for_text("#log", "the run ended with exit code")
        page.until(lambda: page.run("return document.querySelectorAll('#curves .line-0').length >= 3"), "its curves")
        page.check("cancelled")
        page.button("Delete").click()
        page.button("Delete the job").click()
        page.wait_for_text(".empty", "There is no job yet")

    def test_a_search_shows_its_trials_best_first(self):
        page = self.browser
        status, answer = self.submit_tuning("grid", [RATE, BATCH], algorithm="GRID_SEARCH", maxTrials=4)
        self.assertEqual(status, 200, answer)
        page.open("/")
        page.wait_for_text("tbody .percent", "4 of 4 trials")
        page.wait_for_text("tbody", "Succeeded")
        self.assertIn(" %", page.find("tbody td[data-label=Accuracy]").text)
        page.check("search-list")
        page.find("tbody a").click()
        page.wait_for_text("#trials tbody", "best")
        cells = [[cell.text for cell in row.find_elements("css selector", "th, td")]
                 for row in page.driver.find_elements("css selector", "#trials tbody tr")]  # fmt: skip
        trials = self.job_of("grid")["trainingOutput"]["trials"]
        self.assertEqual([row[0] for row in cells], [trial["trialId"] for trial in trials])
        self.assertEqual([row[1] for row in cells], ["Succeeded"] * 4)
        self.assertEqual([float(row[2].removesuffix(" %")) for row in cells],
                         [round(100 * trial["finalMetric"]["objectiveValue"], 1) for trial in trials])  # fmt: skip
        self.assertEqual([row[4] for row in cells],
                         [trial["hyperparameters"][BATCH["parameterName"]] for trial in trials])  # fmt: skip
        self.assertEqual(page.find(".whole:not([hidden])").text, "4 of 4 trials")
        for part in ("curves", "tasks", "waits", "failures", "checkpoints"):
            self.assertFalse(page.find(f"#{part}").is_displayed(), part)
            self.assertFalse(page.find(f".nearby a[href='#{part}']").is_displayed(), part)
        page.wait_for_text("#log", "the best trial is ")
        page.check("search")

        self.submit_tuning("long", [RATE], epochs=1_000_000, maxTrials=3, algorithm="RANDOM_SEARCH")
        page.open("/?job=long")
        page.wait_for_text("#trials tbody", "Running")
        page.wait_for_text(".tiles:not([hidden])", "Running1")
        page.check("search-running")
        page.button("Cancel").click()
        page.button("Cancel the job").click()
        page.wait_for_text("#trials tbody", "Cancelled")

    def test_what_a_job_says_stays_text(self):
        self.submit("hostile", data={"train": {"images": f"/{HOSTILE}"}})
        page = self.browser
        page.open("/?job=hostile")
        page.wait_for_text(".badge", "Failed")
        folder = self.root / "jobs/hostile"
        (folder / "logs/worker-0.log").write_text(f"E 2026-01-31 10:00:00.001 {HOSTILE}\n")
        write_history(folder, 30, [HOSTILE])
        page.open("/?job=hostile")
        page.wait_for_text("#log", "alert(2)")
        page.wait_for_text(".troubles", "alert(1)")
        page.wait_for_text("#curves", "alert(1)")
        page.wait_for_text("#tasks", "alert(1)")
        self.assertEqual(page.run("return document.querySelectorAll('main img, main script').length"), 0)
        page.check("failed")
        page.open(f"/?job={HOSTILE}")
        page.wait_for_text("main .trouble", "there is nothing at", "there is no job")
        self.assertEqual(page.run("return document.querySelectorAll('main img, main script').length"), 0)

    def test_it_says_that_the_service_or_the_job_is_gone_and_comes_back(self):
        page = self.browser
        self.submit("one", cluster={"workerCount": 1, "parameterServerCount": 1})
        self.wait_for("one", "SUCCEEDED")
        page.open("/?job=one")
        page.wait_for_text(".badge", "Succeeded")
        page.open("/")
        page.wait_for_text("tbody", "Succeeded")
        kill(self.service.pid)
        self.service.end()
        page.wait_for_text("#trouble", "The service does not answer")
        page.until(page.find("#trouble").is_displayed, "it says so")
        self.assertIn("Succeeded", page.find("tbody").text, "what was there stays")
        page.check("gone")
        self.start_service()
        page.until(lambda: not page.find("#trouble").is_displayed(), "it is back")
        page.open("/?job=one")
        page.wait_for_text(".badge", "Succeeded")
        self.ask("DELETE", "/v1/projects/p/jobs/one")
        page.open("/?job=one")
        page.wait_for_text("main .trouble", "there is no job one")
        page.check("deleted")

    def test_all_is_reached_by_keyboard(self):
        page = self.browser
        self.submit("one", cluster={"workerCount": 1, "parameterServerCount": 1})
        self.wait_for("one", "SUCCEEDED")
        write_history(self.root / "jobs/one", 60, ["ps-0", "worker-0"])
        page.open("/?job=one")
        page.wait_for_text("#curves", "top5")
        reached = set()
        for _ in range(200):
            page.driver.switch_to.active_element.send_keys("\ue004")  # tab
            reached.add(page.run(
                "const at = document.activeElement;"
                "return at.getAttribute('aria-label') ?? at.textContent.trim().slice(0, 40)"))  # fmt: skip
            if page.run("return document.activeElement === document.body"):
                break
        for name in ("Skip to the content", "Jobs", "Delete", "Loss: point in time", "Numbers", "Log", "Show"):
            self.assertIn(name, reached)
        scrub = page.find("#curves .scrub")
        page.run("arguments[0].focus()", scrub)
        scrub.send_keys("\ue012")  # to the left
        self.assertIn("training", scrub.get_attribute("aria-valuetext"))


@unittest.skipIf(browser.WHY_NOT, browser.WHY_NOT)
@unittest.skipUnless(browser.AXE.is_file(), "there is no axe-core: tools/dev/clients_environment gets it, or"
                     " DOWNPOUR_AXE names it")  # fmt: skip
class AxeTest(ServiceTest):
    def test_a_fault_of_accessibility_would_be_found(self):
        self.start_service()
        page = Browser(self, self.address)
        page.open("/")
        page.wait_for_text(".empty", "There is no job yet")
        page.run("document.querySelector('main').append(document.createElement('input'))")
        with self.assertRaisesRegex(AssertionError, "label"):
            page.check_accessible("a field without a label")


@unittest.skipIf(browser.WHY_NOT, browser.WHY_NOT)
class StrangerTest(ServiceTest):
    def test_who_is_not_known_is_asked_for_the_token(self):
        key, certificate, token = (self.folder / name for name in ("key.pem", "cert.pem", "token"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=downpour"], check=True, capture_output=True)  # fmt: skip
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        self.address = f"127.0.0.2:{free_port()}"  # not the loopback address on which a user is known
        self.start_service("--token-file", token, "--certificate", certificate, "--private-key", key)
        page = Browser(self, self.address, "https")
        page.open("/")
        page.wait_for_text("dialog", "token")
        self.assertEqual(page.find("main").text.count("There is no job yet"), 0)
        page.check("stranger")
        page.find("#token").send_keys("0123456789abcdeg")
        page.button("Continue").click()
        page.wait_for_text("dialog .trouble", "does not know the token")
        page.check("stranger-again")
        page.find("#token").send_keys("0123456789abcdef")
        page.button("Continue").click()
        page.wait_for_text(".empty", "There is no job yet")
        saved = page.run_with("files.js", """
          const link = module.fileLink("/metrics", "metrics.txt", "Metrics");
          document.querySelector("main").append(link);
          return new Promise((saved) => {
            URL.createObjectURL = (blob) => { saved(blob.text()); return "#"; };
            link.click();
          });""")
        self.assertIn("downpour_jobs", saved, "a link to a file carries the token")


if __name__ == "__main__":
    unittest.main(verbosity=2)
