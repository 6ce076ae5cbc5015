"""The page of models: their versions and rates, and a form that asks one."""

import json
import unittest

import browser
from browser import Browser
from prediction_service import PredictionCase


@unittest.skipIf(browser.WHY_NOT, browser.WHY_NOT)
class ModelsPageTest(PredictionCase):
    def test_versions_their_numbers_and_a_try(self):
        self.start_service()
        page = Browser(self, self.address)
        page.open("/?models")
        page.wait_for_text(".empty", "There is no model yet")
        page.check("models-empty")
        self.deploy_both()
        self.deploy("v3", "nojob", expected="is no job of this service")
        page.wait_for_text("main table", "digits/v3")
        self.predictions()
        page.wait_for_text("main table tbody tr", "ms")
        shown = page.shown("main table")
        for words in ("digits/v1", "digits/v2", "Ready", "Failed", "is no job of this service"):
            self.assertIn(words, shown)
        page.find("#instances").send_keys("[1, 2]")
        page.find("#try .primary").click()
        page.wait_for_text("#try .trouble", "row 0")
        page.run("document.querySelector('#instances').value = arguments[0]",
                 "\n".join(json.dumps(row) for row in self.rows[:2]))  # fmt: skip
        page.find("#try .primary").click()
        page.wait_for_text("#try .answer", '"probabilities"')
        page.check("models")


if __name__ == "__main__":
    unittest.main()
