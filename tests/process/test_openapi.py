"""The service's OpenAPI file, held against the service by its routes; tests/clients holds its answers against it."""

import re
import unittest

from cluster import ROOT
from job_service import ServiceTest


class OpenApiTest(ServiceTest):
    def test_it_names_every_route_and_each_answers(self):
        self.start_service()
        status, document = self.ask("GET", "/openapi.json")
        self.assertEqual(status, 200)
        for path, methods in document["paths"].items():
            names = {"project": "p", "job": "none", "bucket": "none", "object": "none", "task": "none",
                     "model": "none", "version": "none", "operation": "none"}
            asked = path.format(**names, toBucket="none", toObject="none")
            for method, operation in methods.items():
                code, answer = self.ask(method.upper(), asked, {} if method in ("post", "patch") else None)
                self.assertIn(str(code), operation["responses"], f"{method} {path}: {answer}")
                self.assertNotIn("there is nothing at", str(answer), f"{method} {path}")

    def test_it_has_what_the_page_asks_for(self):
        self.start_service()
        paths = self.ask("GET", "/openapi.json")[1]["paths"]
        script = (ROOT / "service/page/api.js").read_text()
        asked = re.findall(r'path\(name, ["`]([/:][a-z]+)', script)
        self.assertGreater(len(asked), 5)
        for rest in asked:
            self.assertIn("/v1/projects/{project}/jobs/{job}" + rest, paths)
        for rest in re.findall(r"\$\{JOBS\}(:[a-z]+)", script):
            self.assertIn("/v1/projects/{project}/jobs" + rest, paths)


if __name__ == "__main__":
    unittest.main()
