"""/metrics of a chief, what deploy/monitoring makes of it, and metrics.jsonl through a kill."""

import json
import re
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request

from cluster import ENDLESS, LONG, PROGRAMS, ROOT, ProcessTest, complete, kill, merged, wait_for_death

MONITORING = ROOT / "deploy/monitoring"
PROMTOOL = shutil.which("promtool")


def names_in(text):
    return set(re.findall(r"downpour_\w+", text))


class MetricsTest(ProcessTest):
    def get(self, address, path="/metrics", **headers):
        request = urllib.request.Request(address + path, headers=headers)
        with urllib.request.urlopen(request, timeout=LONG) as answer:
            return answer.read().decode()

    def chief_log(self):
        return "".join(path.read_text() for path in sorted((self.job_dir / "logs").glob("chief*")))

    def lines(self, kind):
        """Of metrics.jsonl. What is no JSON was cut short."""
        found = []
        for text in (self.job_dir / "metrics.jsonl").read_text().splitlines():
            try:
                found.append(json.loads(text))
            except json.JSONDecodeError:
                continue
        return [line for line in found if line["kind"] == kind]

    def test_what_is_scraped_is_what_the_dashboard_and_the_rules_read(self):
        self.write_endless_job(training={"metrics": ["top2"], "evaluateEveryEpochs": 100})
        run = self.start_run("--metrics", "0")
        address = re.findall(r"metrics at (http://127\.0\.0\.1:\d+)/metrics", self.chief_log())[0]
        self.wait_until(lambda status: complete(status) and "round" in status["checkpoint"]
                        and "evaluation" in status and "loss" in status["progress"]
                        and "mean" in status["staleness"] and status.get("remainingSeconds"))  # fmt: skip
        text = self.get(address)
        self.assertIn('downpour_job_state{state="RUNNING"} 1\n', text)
        self.assertRegex(text, r'downpour_task_up\{task="worker-0",role="worker"\} 1\n')
        examples = re.compile(r"^downpour_examples_total (\d+)$", re.MULTILINE)
        first = int(examples.findall(text)[0])
        self.wait_until(lambda _: int(examples.findall(self.get(address))[0]) > first)

        scraped = names_in(text)
        for file in ("grafana.json", "downpour.rules.yml"):
            wanted = {name for name in names_in((MONITORING / file).read_text()) if "_gpu_" not in name}
            self.assertEqual(wanted - scraped - {"downpour_jobs"}, set(), file)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.get(address, Origin="http://evil.example")
        self.assertEqual(refused.exception.code, 403)
        with self.subTest("promtool"):
            self.check_with_promtool(["check", "metrics"], text)
        run.signal(2)
        run.finish()

    def check_with_promtool(self, words, text=""):
        if PROMTOOL is None:
            self.skipTest("promtool is not there: Debian's package prometheus has it")
        done = subprocess.run([PROMTOOL, *map(str, words)], input=text, capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_prometheus_takes_the_rules(self):
        self.check_with_promtool(["check", "rules", MONITORING / "downpour.rules.yml"])
        self.check_with_promtool(["check", "config", "--syntax-only", MONITORING / "prometheus.yml"])

    def test_the_dashboard_names_its_data_source_by_a_variable(self):
        board = json.loads((MONITORING / "grafana.json").read_text())
        self.assertEqual([variable["name"] for variable in board["templating"]["list"]], ["source", "instance"])
        for panel in board["panels"]:
            self.assertEqual(panel["datasource"]["uid"], "${source}", panel["title"])
            self.assertTrue(all("$instance" in target["expr"] for target in panel["targets"]), panel["title"])

    def test_addresses_that_others_reach_need_a_token(self):
        self.write_job()
        chief = self.start("chief", f"--job={self.job_file}", f"--job_dir={self.job_dir}", "--metrics=0.0.0.0:0")
        self.assertEqual(chief.finish()[0], 2)
        self.assertIn("--metrics: others can reach 0.0.0.0:0: give a token file", chief.said)

    def test_the_history_goes_on_under_the_next_chief(self):
        self.write_job(**merged(ENDLESS, {"training": {"evaluateEveryEpochs": 100}}))
        run = self.start_run()
        with_points = lambda _: len(self.lines("train")) >= 2 and self.lines("eval")  # noqa: E731
        status = self.wait_until(lambda status: complete(status) and with_points(status))
        kill(status["chief"]["pid"])
        wait_for_death(status["chief"]["pid"])
        with open(self.job_dir / "metrics.jsonl", "a") as file:
            file.write('{"kind": "train", "step": 99999999')
        self.wait_until(lambda _: len(self.lines("job")) == 2 and len(self.lines("train")) >= 6)
        run.signal(2)
        run.finish()
        self.assertEqual(len({line["run"] for line in self.lines("job")}), 1)
        steps = [line["step"] for line in self.lines("train")]
        self.assertEqual(steps, sorted(steps))
        self.assertLess(steps[-1], 99999999)
        self.assertEqual(steps[-1], self.lines("tasks")[-1]["step"])
        self.assertEqual(self.lines("train")[-1]["examples"], self.summary()["examples"])
        self.assertEqual(len(list(self.job_dir.glob("events.out.tfevents.*"))), 2)
        self.assertGreater(self.lines("tasks")[-1]["tasks"]["worker-0"]["memoryBytes"], 0)


if __name__ == "__main__":
    unittest.main()
