"""What the web page tells of a job: what it is, why it is not further, how to continue it; and how one is submitted as
a package. Nothing empty is in the way."""

import io
import json
import tarfile
import unittest

import browser
from browser import Browser
from cluster import ENDLESS, kill, merged
from job_service import ServiceTest

EMPTY_IN_A_JOB_THAT_NEVER_BEGAN = ("curves", "tasks", "waits", "failures", "checkpoints", "output")
NO_MODEL = """
import pathlib, sys
pathlib.Path(sys.argv[sys.argv.index("--job-dir") + 1], "words.txt").write_text(" | ".join(sys.argv[1:-2]))
raise SystemExit("it has no model")
"""


def package(**files):
    """An sdist of trainer."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in {"__init__": "", **files}.items():
            entry = tarfile.TarInfo(f"trainer-1.0/trainer/{name}.py")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def write_numbers(folder, tasks, seconds=20):
    """As a chief of so many tasks writes them."""
    lines = [{"kind": "job", "time": 1, "run": "0" * 16, "name": "many", "hyperparameters": {}}]
    for s in range(seconds):
        at = {"time": s, "elapsed": s, "step": 40 * s}
        lines.append(at | {"kind": "train", "loss": 2 / (1 + s), "examplesPerSecond": 900, "staleness": 0})
        numbers = {task: {"cpu": 0.9, "examplesPerSecond": 7} for task in tasks if task.startswith("worker-")}
        numbers |= {task: {"cpu": 0.9} for task in tasks if task not in numbers}
        lines.append(at | {"kind": "tasks", "tasks": numbers})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@unittest.skipIf(browser.WHY_NOT, browser.WHY_NOT)
class JobPageTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.start_service("--cores", "2")
        self.page = Browser(self, self.address)

    def submit_small(self, name, state="SUCCEEDED", **changes):
        """Its folder, once it is over."""
        self.submit(name, **changes)
        self.wait_for(name, state)
        return self.root / "jobs" / name

    def test_why_a_job_failed_or_waits_stands_in_the_list_and_above_its_page(self):
        page = self.page
        self.submit_small("broken", "FAILED", data={"train": {"images": "/no/such/file"}})
        self.submit("long", **ENDLESS)
        self.wait_for("long", "RUNNING")
        self.submit("next")
        page.open("/")
        page.wait_for_text("tbody", "Waits for 2 cores")
        self.assertIn("Waits for 2 cores", page.shown("td[data-label=Progress] [data-state=QUEUED]"))
        self.assertIn("/no/such/file is not on this machine", page.shown("td[data-label=Progress] [data-state=FAILED]"))
        self.assertFalse(page.shown("td[data-label=Progress] [data-state=RUNNING]"))
        page.check("list-reasons")
        page.open("/?job=next")
        page.wait_for_text(".notices", "Waits for 2 cores, 0 of 2 free.")
        self.assertFalse(page.shown(".troubles"), "to wait is no trouble")

    def test_of_a_job_that_never_began_there_is_nothing_empty(self):
        page = self.page
        self.submit_small("broken", "FAILED", data={"train": {"images": "/no/such/file"}})
        page.open("/?job=broken")
        page.wait_for_text("#log", "the run ended with exit code 78")
        page.wait_for_text(".troubles", "/no/such/file")
        self.assertEqual(page.shown(".tiles div"), "")
        for part in EMPTY_IN_A_JOB_THAT_NEVER_BEGAN:
            self.assertFalse(page.find(f"#{part}").is_displayed(), part)
        self.assertNotIn("Nothing has failed", page.find("main").text)
        page.check("never-began")

    def test_what_is_empty_of_a_job_that_succeeded_is_put_away(self):
        page = self.page
        self.submit_small("one")
        page.open("/?job=one")
        page.until(lambda: page.shown("#checkpoints tbody"), "its checkpoints")
        page.until(lambda: page.shown("#curves figure"), "its curves")
        for part in ("waits", "failures", "output"):
            self.assertFalse(page.find(f"#{part}").is_displayed(), part)
            self.assertFalse(page.find(f".nearby a[href='#{part}']").is_displayed(), part)
        self.assertNotIn("–", page.shown(".tiles dd"))
        self.assertFalse(page.shown("#tasks .charts"), "the curves of each task are there when they are wanted")
        page.press("#tasks summary")
        self.assertIn("Examples per second of each", page.shown("#tasks .charts"))

    def test_a_job_that_was_cancelled_or_failed_says_by_which_command_it_continues(self):
        page = self.page
        self.submit("long", **merged(ENDLESS, {"checkpoint": {"every": "100ms"}}))
        page.open("/?job=long")
        page.wait_for_text("#checkpoints tbody", "Complete")
        self.assertFalse(page.shown(".resume"), "it runs")
        self.ask("POST", "/v1/projects/p/jobs/long:cancel", {})
        page.wait_for_text(".badge", "Cancelled")
        page.until(lambda: page.shown(".resume code"), "the command")
        command = page.shown(".resume code")
        self.assertEqual(command.split()[1:], ["run", str(self.root / "jobs/long/service/job.json"), "--job-dir",
                                               str(self.root / "jobs/long"), "--resume"])  # fmt: skip
        page.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]})
        page.press(".resume button")
        page.wait_for_text("#announce", "Copied: command")
        copied = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
        self.assertEqual(copied, command)
        page.check("resume")
        self.assertNotIn("resume", self.ask("GET", f"/v1/projects/p/jobs/{self.succeeded()}/checkpoints")[1])

    def succeeded(self):
        self.submit_small("short")
        return "short"

    def test_failures_with_the_same_words_are_one_row_with_their_count(self):
        page = self.page
        folder = self.submit_small("one")
        summary = json.loads((folder / "summary.json").read_text())
        at = summary["startTimeUnixMs"]
        silent = "no heartbeat for 5.0 s"
        lost = [{"unixMs": at + 1000 * i, "task": f"worker-{i % 2}", "what": silent} for i in range(6)]
        summary["failures"] = [*lost, {"unixMs": at + 9000, "task": "ps-0", "what": "was replaced"}, {"what": "?"}]
        (folder / "summary.json").write_text(json.dumps(summary))
        page.open("/?job=one")
        page.wait_for_text("#failures", "no heartbeat")
        rows = [row.text for row in page.driver.find_elements("css selector", "#failures li")]
        self.assertEqual(len(rows), 3, rows)
        self.assertIn("ps-0 was replaced", rows[1])
        self.assertRegex(rows[2], r"worker-0, worker-1 no heartbeat for 5.0 s 6 times since \d\d:\d\d:\d\d$")

    def test_failures_are_marked_in_the_curves_by_their_ages_whatever_the_calendar_says(self):
        page = self.page
        folder = self.submit_small("one")
        write_numbers(folder, ["worker-0"])
        summary = json.loads((folder / "summary.json").read_text())
        at = summary["startTimeUnixMs"]
        summary["elapsedSeconds"] = 19
        summary["failures"] = [{"unixMs": at + 10**10, "ageSeconds": 19 - x, "task": "ps-0", "what": f"at {x}"}
                               for x in (0, 9.5)] + [{"unixMs": at, "what": "of unknown age"}]  # fmt: skip
        (folder / "summary.json").write_text(json.dumps(summary))
        page.open("/?job=one")
        page.wait_for_text("#failures", "of unknown age")
        drawn = ("const plot = document.querySelector('#curves .plot svg');"
                 "const of = (kind) => [...plot.querySelectorAll(kind)].map((line) => Number(line.getAttribute('x1')));"
                 "return [of('line.mark'), of('line.grid')[0], "
                 "Number(plot.querySelector('line.grid').getAttribute('x2'))]")  # fmt: skip
        page.until(lambda: len(page.run(drawn)[0]) == 2, "a mark for each failure whose age is known")
        marks, left, right = page.run(drawn)
        self.assertEqual([round(mark - left) for mark in marks], [0, round((right - left) / 2)])

    def test_many_tasks_are_named_or_counted_and_curves_tell_their_newest_value(self):
        page = self.page
        folder = self.submit_small("many")
        write_numbers(folder, [f"ps-{i}" for i in range(10)] + [f"worker-{i}" for i in range(21)])
        page.open("/?job=many")
        page.wait_for_text("#tasks .charts", "and 13 others")
        page.press("#tasks summary")
        labels = page.run("return [...document.querySelectorAll('.plot svg')].filter((node) => node.checkVisibility())"
                          ".map((node) => [node.role ?? node.getAttribute('role'), node.ariaLabel])")  # fmt: skip
        self.assertIn(["img", "Loss, newest: 0.1"], labels)
        [each] = [label for _, label in labels if label.startswith("Examples per second of each")]
        self.assertRegex(each, r"newest: worker-0 7, .*, and 13 others$")
        self.assertEqual({role for role, _ in labels}, {"img"})
        page.check("many-tasks")

    def test_a_scale_does_not_go_below_what_there_can_be(self):
        page = self.page
        page.open("/")
        script = """
          const scale = (ys, options) => {
            const chart = new module.Chart("one", options);
            document.querySelector("main").append(chart.node);
            chart.update([{ name: "one", x: ys.map((_, i) => i), y: ys }]);
            return [chart.scaled.low, chart.scaled.high];
          };
          return [scale([0, 0], { zero: true }), scale([0, 0]), scale([0, 0.9]), scale([-2, -2]), scale([5, 5]),
                  scale([1, 1], { most: 1 })];"""
        zero, plain, rises, below, five, all_right = page.run_with("chart.js", script)
        self.assertEqual((zero, plain), ([0, 1], [0, 1]))
        self.assertEqual(rises[0], 0)
        self.assertTrue(below[0] < -2 < below[1] and five[0] < 5 < five[1], (below, five))
        self.assertTrue(all_right[0] < 1 == all_right[1], all_right)

    def test_where_a_task_runs_takes_one_line_and_columns_without_anything_are_put_away(self):
        page = self.page
        page.open("/")
        long = "ip-10-0-12-34.eu-central-1.compute.internal"
        tasks = [{"name": "worker-0", "role": "worker", "state": "RUNNING", "host": long,
                  "device": "cpu (oneDNN 2.6.3, AVX512)", "step": 7, "cpuShare": 0.9, "residentBytes": 2**30,
                  "waitingFor": "parameters from ps-0"},
                 {"name": "ps-0", "role": "ps", "state": "RUNNING", "host": "h1", "step": 7}]  # fmt: skip
        page.run_with("tasks.js", """
          const { node, update } = module.taskTable(document.createElement("div"));
          document.querySelector("main").replaceChildren(node);
          update({ status: { tasks: arguments[0] } });""", tasks)  # fmt: skip
        place = page.find("td[data-label=Where] span")
        lines = page.run("return arguments[0].getClientRects().length && arguments[0].clientHeight /"
                         " parseFloat(getComputedStyle(arguments[0]).lineHeight)", place)  # fmt: skip
        self.assertLess(lines, 1.5)
        self.assertEqual(place.get_attribute("title"), f"{long}, cpu (oneDNN 2.6.3, AVX512)")
        heads = page.shown("thead th").split("\n")
        self.assertIn("CPU", heads)
        self.assertNotIn("GPU", heads)
        self.assertNotIn("Staleness", heads)


@unittest.skipIf(browser.WHY_NOT, browser.WHY_NOT)
class PackageTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.start_service()
        self.page = Browser(self, self.address)

    def open_form_for_a_package(self):
        """The package to give it."""
        archive = self.folder / "trainer-1.0.tar.gz"
        archive.write_bytes(package(task=NO_MODEL))
        self.page.open("/?submit")
        self.page.find("#kind-package").click()
        return archive

    def fill(self, **fields):
        for field, text in fields.items():
            self.page.find(f"#{field}").clear()
            self.page.find(f"#{field}").send_keys(str(text))

    def test_a_package_is_submitted_and_its_page_says_what_it_is(self):
        page, archive = self.page, self.open_form_for_a_package()
        self.assertFalse(page.find("#text").is_displayed())
        page.check("submit-package")
        self.fill(name="code", module="trainer.task", args="--epochs 2 --name 'a b", folder="gs://models/code",
                  labels="team=a, trial")  # fmt: skip
        page.find("#package").send_keys(str(archive))
        page.find("form .primary").click()
        page.wait_for_text(".form .trouble", "' has nothing to close it")
        self.fill(args="--epochs 2 --name 'a b'", labels="Team=a")
        page.find("form .primary").click()
        page.wait_for_text(".form .trouble", "labels")
        self.fill(labels="team=a, trial")
        page.find("form .primary").click()
        page.wait_for_text(".badge", "Failed")
        page.wait_for_text(".troubles", "it has no model")
        page.until(lambda: page.shown("#output li"), "its output")
        facts = page.shown("#about")
        for text in ("Submitted", "Started", "Ended", "BASIC", "trainer.task", "--epochs 2 --name 'a b'", "team=a",
                     "trial", "gs://models/code", str(self.root / "jobs/code"), "trainer-1.0.tar.gz"):  # fmt: skip
            self.assertIn(text, facts)
        job = self.job_of("code")
        self.assertEqual(job["labels"], {"team": "a", "trial": ""})
        [uri] = job["trainingInput"]["packageUris"]
        self.assertEqual((self.root / "storage" / uri.removeprefix("gs://")).read_bytes(), archive.read_bytes())
        for link, text in (("#output a", b"--epochs | 2 | --name | a b"), ("#about a", archive.read_bytes())):
            self.assertEqual(self.ask("GET", self.path_of(link))[1], text)
        page.press("#log summary")
        self.assertIn(b"it has no model", self.ask("GET", self.path_of("#log .links a"))[1])
        page.check("package")
        self.assertEqual(self.ask("GET", "/v1/projects/p/jobs/code/logs/..%2Fservice")[0], 404)
        self.ask("DELETE", "/v1/projects/p/jobs/code")
        self.assertEqual(list(self.root.glob("storage/packages/*")), [], "what was refused has left nothing either")

    def path_of(self, link):
        return self.page.find(link).get_attribute("href").removeprefix(f"http://{self.address}")

    def test_words_are_split_and_joined_as_a_shell_does(self):
        page = self.page
        page.open("/")
        script = "return [module.splitWords({0}), module.joinWords(module.splitWords({0}))]"
        for text, words, joined in (
            ("", [], ""),
            ("  --epochs 2\n--rate=1e-3 ", ["--epochs", "2", "--rate=1e-3"], "--epochs 2 --rate=1e-3"),
            ("'a b' \"c 'd' \\\" \\n\" e\\ f '' x'y'z", ["a b", "c 'd' \" \\n", "e f", "", "xyz"],
             "'a b' 'c '\\''d'\\'' \" \\n' 'e f' '' xyz"),
        ):  # fmt: skip
            self.assertEqual(page.run_with("shell_words.js", script.format(json.dumps(text))), [words, joined], text)
        for text in ("'a", '"a\\"', "a\\"):
            said = page.run_with("shell_words.js", script.format(json.dumps(text)))
            self.assertIn("has nothing to close it", str(said), text)

    def test_a_package_whose_answer_was_lost_is_not_sent_again(self):
        page, archive = self.page, self.open_form_for_a_package()
        self.fill(name="code", module="trainer.task")
        page.find("#package").send_keys(str(archive))
        # The service dies behind the upload.
        page.run("""
          const { fetch } = window;
          const isLost = (path, { method }) => path.endsWith("/jobs") && method === "POST";
          window.fetch = (path, options) =>
            isLost(path, options) ? Promise.reject(new TypeError()) : fetch(path, options);
          document.querySelector("form").addEventListener("lost", () => { window.fetch = fetch; });""")
        page.find("form .primary").click()
        page.wait_for_text(".form .trouble", "the service does not answer")
        kill(self.service.pid)
        self.service.end()
        self.start_service()
        page.run("document.querySelector('form').dispatchEvent(new Event('lost'))")
        page.find("form .primary").click()
        page.wait_for_text(".badge", "Failed")
        self.assertEqual(len(list(self.root.glob("storage/packages/code/*/*"))), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
