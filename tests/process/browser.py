"""A browser without a screen, driven as a person would: Debian's chromium by python3-selenium.

Accessibility faults are looked for by axe-core, where tools/dev/clients_environment has put it or DOWNPOUR_AXE names
its axe.min.js.
"""

import os
import pathlib
import shutil

from cluster import BUILD, LONG

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

WHY_NOT = next((why for missing, why in [
    (webdriver is None, "there is no selenium for this Python (python3-selenium)"),
    (shutil.which("chromium") is None, "there is no chromium"),
    (shutil.which("chromedriver") is None, "there is no chromedriver (chromium-driver)"),
] if missing), None)  # fmt: skip
INSTALLED = sorted(BUILD.glob("clients/lib/python3*/site-packages/axe_playwright_python/axe.min.js"))
AXE = pathlib.Path(os.environ.get("DOWNPOUR_AXE", INSTALLED[0] if INSTALLED else "axe.min.js"))
SCREENS = BUILD / "meson-logs/page"  # kept, to be looked at
PHONE, DESK = 360, 1280
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
         "--ignore-certificate-errors")  # fmt: skip


class Browser:
    def __init__(self, test, address, scheme="http"):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        test.addCleanup(self.driver.quit)
        self.driver.set_script_timeout(LONG)  # a job that trains beside it takes every core
        self.test = test
        self.address = f"{scheme}://{address}"
        self.look(DESK)

    def look(self, width, scheme="light", height=900):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def open(self, path="/"):
        self.driver.get(self.address + path)

    def run(self, script, *words):
        return self.driver.execute_script(script, *words)

    def run_with(self, module, script, *words):
        """Of a script that has a file of the page as `module`: what it returns."""
        return self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            f"import('/page/{module}').then((module) => {{ {script} }}).then(done, (error) => done(String(error)));",
            *words,
        )

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def shown(self, selector):
        """What can be seen of it, as text: of each a line. In one look, since the page may change between two."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].filter((node) => node.checkVisibility())"
            ".map((node) => node.innerText).join('\\n')", selector)  # fmt: skip

    def press(self, selector):
        """Once it is shown, wherever the page has moved it by then."""
        self.until(lambda: self.shown(selector), f"no {selector}")
        self.run("document.querySelector(arguments[0]).click()", selector)

    def button(self, name):
        """One that can be seen and pressed."""
        path = f"//button[normalize-space()='{name}' and not(@disabled)]"

        def shown():
            return next((b for b in self.driver.find_elements(By.XPATH, path) if b.is_displayed()), None)

        return self.until(shown, f"no button {name}")

    def until(self, condition, why):
        """What the condition gives, once it is something."""
        return WebDriverWait(self.driver, LONG, poll_frequency=0.1).until(lambda _: condition(), why)

    def wait_for_text(self, selector, *words):
        """Until the element has one of the words in it."""
        def text():
            return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

        self.until(lambda: any(word in text() for word in words), f"not {words} in {selector}, but {text()!r}")

    def check(self, name):
        """How it looks is kept: wide and narrow, light and dark. It is accessible, and says nothing of errors."""
        SCREENS.mkdir(parents=True, exist_ok=True)
        for width, scheme in ((DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")):
            self.look(width, scheme)
            wide = self.run("return document.documentElement.scrollWidth")
            self.test.assertLessEqual(wide, width, f"{name} must be scrolled sideways")
            height = self.run("return document.documentElement.scrollHeight")
            self.look(width, scheme, height)
            self.driver.save_screenshot(str(SCREENS / f"{name}-{width}-{scheme}.png"))
            self.check_accessible(f"{name}, {width} pixels, {scheme}")
            if width == PHONE:
                self.check_touch(name)
        self.look(DESK)
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        self.test.assertEqual([line for line in said if "Failed to load resource" not in line], [], name)

    def check_touch(self, where):
        """What a finger is to hit is large enough: 44 pixels high. Around a box its label is, in each direction."""
        small = self.run("""
            return [...document.querySelectorAll("a, button, input, select, textarea, summary")].flatMap((node) => {
              const { left, top, width, height } = node.getBoundingClientRect();
              const isBox = ["checkbox", "radio"].includes(node.type);
              const least = isBox ? 24 : 44;
              const hidden = !node.checkVisibility() || node.matches(".skip:not(:focus)");
              const label = (isBox ? node.closest("label") : node).getBoundingClientRect();
              const middle = { x: left + width / 2, y: top + height / 2 };
              const reach = Math.min(middle.x - label.left, label.right - middle.x, middle.y - label.top,
                                     label.bottom - middle.y);
              if (hidden || (height >= least && width >= 24 && (!isBox || reach >= 22))) return [];
              return [`${node.outerHTML.slice(0, 80)}: ${width} x ${height}`];
            });""")
        self.test.assertEqual(small, [], f"{where}: too small for a finger")

    def check_accessible(self, where):
        if not AXE.is_file():
            return
        # By the debugger: the page's own policy lets no other script in.
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text()})
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(done);"
        )
        faults = [f"{fault['id']}: {fault['help']}: {[node['html'][:200] for node in fault['nodes']][:3]}"
                  for fault in found["violations"]]  # fmt: skip
        self.test.assertEqual(faults, [], where)
        self.test.assertGreater(len(found["passes"]), 10, "nothing was looked at")
