"""Google's own client for Python drives the job service by the discovery file of ml v1, which comes with it."""

import importlib.util
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "process"))

from environment import run_again_in_the_environment  # noqa: E402
from job_service import ServiceTest  # noqa: E402

HAS_CLIENT = importlib.util.find_spec("googleapiclient") is not None
ENDLESS = {"training": {"epochs": 1_000_000}}


@unittest.skipUnless(HAS_CLIENT, "there is no google-api-python-client: tools/dev/clients_environment makes a Python"
                     " that has it")  # fmt: skip
class GoogleClientTest(ServiceTest):
    def setUp(self):
        super().setUp()
        import httplib2
        from googleapiclient import discovery

        self.start_service("--cores", "2")
        service = discovery.build("ml", "v1", http=httplib2.Http(), static_discovery=True,
                                  client_options={"api_endpoint": f"http://{self.address}/"})  # fmt: skip
        self.addCleanup(service.close)
        self.jobs = service.projects().jobs()

    def body(self, name, **changes):
        return {"jobId": name, "jobFile": self.job_text(**changes)}

    def create(self, name, labels=None, **changes):
        body = self.body(name, **changes) | {"labels": labels or {}}
        return self.jobs.create(parent="projects/p", body=body).execute()

    def get(self, name):
        return self.jobs.get(name=f"projects/p/jobs/{name}").execute()

    def refusal_of(self, request):
        from googleapiclient.errors import HttpError

        with self.assertRaises(HttpError) as refused:
            request.execute()
        return refused.exception

    def test_a_job_is_created_listed_labelled_and_cancelled(self):
        job = self.create("first", {"team": "a"}, **ENDLESS)
        self.assertEqual((job["jobId"], job["state"], job["labels"]), ("first", "QUEUED", {"team": "a"}))
        for name in ("second", "third"):
            self.create(name)
        self.wait_for("first", "RUNNING")
        self.assertEqual(self.get("first")["state"], "RUNNING")

        found, request = [], self.jobs.list(parent="projects/p", filter="state=QUEUED OR labels.team=a", pageSize=2)
        pages = 0
        while request is not None:
            answer = request.execute()
            found += [job["jobId"] for job in answer["jobs"]]
            request = self.jobs.list_next(request, answer)
            pages += 1
        self.assertEqual((found, pages), (["third", "second", "first"], 2))

        body = {"labels": {"team": "b"}, "etag": self.get("first")["etag"]}
        changed = self.jobs.patch(name="projects/p/jobs/first", updateMask="labels", body=body).execute()
        self.assertEqual(changed["labels"], {"team": "b"})
        self.assertEqual(self.jobs.cancel(name="projects/p/jobs/first", body={}).execute(), {})
        self.assertIn("request", self.wait_for("first", "CANCELLED")["errorMessage"])
        self.wait_for("third", "SUCCEEDED")

    def test_a_job_of_ai_platforms_own_shape_is_taken(self):
        body = {"jobId": "shaped", "trainingInput": {
            "scaleTier": "CUSTOM", "masterType": "n1-standard-4", "workerType": "n1-standard-4", "workerCount": "2",
            "parameterServerType": "n1-standard-4", "parameterServerCount": "1", "region": "us-central1",
            "pythonModule": "trainer.task", "packageUris": ["gs://models/shaped.tar.gz"], "runtimeVersion": "2.1",
            "scheduling": {"maxRunningTime": "3600s"}}}  # fmt: skip
        refused = self.refusal_of(self.jobs.create(parent="projects/p", body=body))
        self.assertEqual((refused.resp.status, "gs://models/shaped.tar.gz" in refused.reason), (400, True))
        place = "/upload/storage/v1/b/models/o?uploadType=media&name=shaped.tar.gz"
        self.assertEqual(self.ask("POST", place, {"no": "package"})[0], 200)
        job = self.jobs.create(parent="projects/p", body=body).execute()
        self.assertEqual(job["trainingInput"]["workerCount"], "2")
        self.assertIn("shaped.tar.gz", self.wait_for("shaped", "FAILED")["errorMessage"])

    def test_refusals_are_googles_and_say_what_helps(self):
        self.create("only")
        for request, code, reason in [
            (self.jobs.create(parent="projects/p", body=self.body("only")), 409, "choose another name"),
            (self.jobs.create(parent="projects/p", body={"jobId": "no job"}), 400, "jobId"),
            (self.jobs.get(name="projects/p/jobs/none"), 404, "there is no job none"),
            (self.jobs.list(parent="projects/p", filter="state >"), 400, "filter"),
            (self.jobs.list(parent="projects/p", pageToken="gone"), 400, "give the nextPageToken of an answer"),
            (self.jobs.patch(name="projects/p/jobs/only", updateMask="state", body={}), 400, "updateMask"),
            (self.jobs.patch(name="projects/p/jobs/only", updateMask="labels", body={"etag": "old", "labels": {}}), 409,
             "read it again"),
            (self.jobs.cancel(name="projects/p/jobs/none", body={}), 404, "there is no job none"),
        ]:  # fmt: skip
            error = self.refusal_of(request)
            self.assertEqual(error.resp.status, code, error)
            self.assertIn(reason, error.reason)


if __name__ == "__main__":
    unittest.main() if HAS_CLIENT else run_again_in_the_environment(__file__)
