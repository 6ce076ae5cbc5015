"""schemathesis sends what the service's OpenAPI file allows, and what it does not, and holds each answer against it."""

import importlib.util
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "process"))

from cluster import LONG  # noqa: E402
from environment import run_again_in_the_environment  # noqa: E402
from job_service import ServiceTest  # noqa: E402

HAS_SCHEMATHESIS = importlib.util.find_spec("schemathesis") is not None
# What it answers, and not what it refuses: a filter's or a name's grammar is beyond JSON Schema.
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
          "response_headers_conformance")  # fmt: skip


@unittest.skipUnless(HAS_SCHEMATHESIS, "there is no schemathesis: tools/dev/clients_environment makes a Python that has"
                     " it")  # fmt: skip
class SchemathesisTest(ServiceTest):
    def check(self, *words, config=""):
        (self.folder / "schemathesis.toml").write_text(config)
        program = pathlib.Path(sys.executable).with_name("schemathesis")
        command = [program, "run", f"http://{self.address}/openapi.json", "--checks", CHECKS,
                   "--generation-deterministic", *words]  # fmt: skip
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=5 * LONG)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-2000:])
        return done.stdout

    def test_no_answer_is_one_that_the_file_lacks(self):
        self.start_service()
        self.check("--max-examples", "10")

    def test_nor_is_one_about_a_job_that_runs(self):
        self.start_service()
        self.submit("seen", training={"epochs": 1_000_000})
        self.wait_for("seen", "RUNNING")
        said = self.check("--max-examples", "5", "--phases", "coverage,fuzzing", "--include-path-regex", "/jobs/",
                          "--exclude-method", "DELETE", "--exclude-path-regex", ":cancel",
                          config='[parameters]\n"path.job" = "seen"\n')  # fmt: skip
        self.assertNotIn("Missing test data", said)
        self.assertEqual(self.job_of("seen")["state"], "RUNNING")


if __name__ == "__main__":
    unittest.main() if HAS_SCHEMATHESIS else run_again_in_the_environment(__file__)
