"""The service's OpenAPI file, held against the service: by schemathesis, where it is installed, and by its routes."""

import shutil
import subprocess
import unittest

from cluster import LONG
from job_service import ServiceTest

SCHEMATHESIS = shutil.which("schemathesis")


class OpenApiTest(ServiceTest):
    def test_it_names_every_route_and_each_answers(self):
        self.start_service()
        status, document = self.ask("GET", "/openapi.json")
        self.assertEqual(status, 200)
        for path, methods in document["paths"].items():
            asked = path.format(project="p", job="none", bucket="none", object="none")
            for method, operation in methods.items():
                code, answer = self.ask(method.upper(), asked, {} if method in ("post", "patch") else None)
                self.assertIn(str(code), operation["responses"], f"{method} {path}: {answer}")
                self.assertNotIn("there is nothing at", str(answer), f"{method} {path}")

    @unittest.skipUnless(SCHEMATHESIS, "there is no schemathesis here")
    def test_schemathesis_finds_no_answer_that_the_file_lacks(self):
        self.start_service()
        # What it answers, and not what it refuses: a filter's or a name's grammar is beyond JSON Schema.
        checks = ("not_a_server_error,status_code_conformance,content_type_conformance,"
                  "response_schema_conformance,response_headers_conformance")  # fmt: skip
        command = [SCHEMATHESIS, "run", f"http://{self.address}/openapi.json", "--checks", checks,
                   "--max-examples", "25", "--seed", "1"]  # fmt: skip
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
