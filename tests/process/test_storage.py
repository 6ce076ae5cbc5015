"""The service's gs:// by its HTTP, and by gcloud where that is here."""

import base64
import hashlib
import http.client
import os
import random
import shutil
import socket
import subprocess
import unittest
import urllib.error
import urllib.request

from cluster import LONG
from job_service import ServiceTest

GCLOUD = shutil.which("gcloud")
UPLOADS = "/resumable/upload/storage/v1/b/models/o?uploadType=resumable&name="


class StorageCase(ServiceTest):
    def setUp(self):
        super().setUp()
        self.start_service()

    def begin(self, name, metadata=b"{}"):
        """The path of an upload."""
        request = urllib.request.Request(f"http://{self.address}{UPLOADS}{name}", metadata, method="POST")
        with urllib.request.urlopen(request, timeout=LONG) as response:
            return response.headers["Location"].removeprefix(f"http://{self.address}")

    def put(self, upload, content, content_range):
        """(status, the Range that is there, answer)."""
        connection = http.client.HTTPConnection(self.address, timeout=LONG)
        self.addCleanup(connection.close)
        connection.request("PUT", upload, content, {"Content-Range": content_range} if content_range else {})
        response = connection.getresponse()
        return response.status, response.headers["Range"], response.read()

    def content_of(self, name):
        return self.ask("GET", f"/download/storage/v1/b/models/o/{name}?alt=media")[1]

    def store(self, name, content):
        path = f"/upload/storage/v1/b/models/o?uploadType=media&name={name}"
        status, answer = self.ask("POST", path, content)
        self.assertEqual(status, 200, answer)
        return answer


class StorageTest(StorageCase):
    def test_a_first_try_that_comes_behind_its_retry_stores_nothing_twice(self):
        content = random.Random(1).randbytes(100_000)
        upload = self.begin("a")
        first = socket.create_connection(self.address.split(":"))
        self.addCleanup(first.close)
        head = (f"PUT {upload} HTTP/1.1\r\nHost: {self.address}\r\nContent-Length: 50000\r\n"
                "Content-Range: bytes 0-49999/100000\r\n\r\n").encode()  # fmt: skip
        first.sendall(head + content[:20_000])
        for _ in range(10_000):  # until the first bytes are there
            status, known, _ = self.put(upload, b"", "bytes */100000")
            self.assertEqual(status, 308)
            if known:
                break
        self.assertEqual(self.put(upload, content[:50_000], "bytes 0-49999/100000")[:2], (308, "bytes=0-49999"))
        first.sendall(content[20_000:50_000])
        self.assertIn(b" 308 ", first.recv(65536).split(b"\r\n")[0])
        status, _, answer = self.put(upload, content[50_000:], "bytes 50000-99999/100000")
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.content_of("a"), content)
        again = self.put(upload, content[50_000:], "bytes 50000-99999/100000")
        self.assertEqual(again[0], 200, "no answer came to the first try")
        self.assertEqual(self.put(upload, b"", "bytes */100000")[0], 200)
        self.assertEqual(self.content_of("a"), content)

    def test_what_does_not_fit_is_refused_and_changes_nothing(self):
        upload = self.begin("a")
        self.assertEqual(self.put(upload, b"0123", "bytes 0-3/10")[:2], (308, "bytes=0-3"))
        for content, said, expected in ((b"6789", "bytes 6-9/10", 400), (b"456789", "bytes 4-8/10", 400),
                                        (b"45", "bytes 4-5/12", 400), (b"45", "bytes 4-5/5", 400),
                                        (b"45", "bytes 5-4/10", 400), (b"45", "bytes 4-/10", 400), (b"45", "x", 400),
                                        (b"45", "bytes -4-5/10", 400), (b"456789", "bytes 0-5/6", 400),
                                        (b"45", "bytes */10", 400), (b"45", f"bytes 4-5/{1 << 40}", 413),
                                        (b"", f"bytes */{1 << 40}", 413)):  # fmt: skip
            status, _, answer = self.put(upload, content, said)
            self.assertEqual(status, expected, (said, answer))
        self.assertEqual(self.put(upload, b"", "bytes */*")[:2], (308, "bytes=0-3"))
        self.assertEqual(self.put(upload, b"456789", "bytes 4-9/10")[0], 200)
        self.assertEqual(self.content_of("a"), b"0123456789")
        upload = self.begin("b")
        self.assertEqual(self.ask("DELETE", upload)[0], 499)
        self.assertEqual(self.put(upload, b"0", "bytes 0-0/1")[0], 404)
        self.assertEqual(os.listdir(self.root / "uploads"), [])

    def test_uploads_of_unknown_length_and_without_bytes_end(self):
        upload = self.begin("a")
        self.assertEqual(self.put(upload, b"0123", "bytes 0-3/*")[0], 308)
        self.assertEqual(self.put(upload, b"", "bytes */4")[0], 200)
        self.assertEqual(self.put(self.begin("b"), b"", "bytes */0")[0], 200)
        self.assertEqual(self.put(self.begin("c"), iter([b"01", b"23"]), None)[0], 200)  # chunked
        self.assertEqual([self.content_of(name) for name in "abc"], [b"0123", b"", b"0123"])

    def test_checksums_are_those_of_the_bytes(self):
        content = b"123456789"
        md5 = base64.b64encode(hashlib.md5(content).digest()).decode()
        sums = {"crc32c": "4waSgw==", "md5Hash": md5}
        answers = [self.store("a", content), self.ask("GET", "/storage/v1/b/models/o/a")[1],
                   self.ask("GET", "/storage/v1/b/models/o")[1]["items"][0]]  # fmt: skip
        (self.root / "storage/models/a").write_bytes(content)  # by a job
        for answer in [*answers, self.ask("GET", "/storage/v1/b/models/o/a")[1]]:
            self.assertEqual({key: answer[key] for key in sums}, sums)
        listed = self.ask("GET", "/storage/v1/b/models/o?fields=items%2Fname,nextPageToken")[1]["items"][0]
        self.assertNotIn("md5Hash", listed, "nobody asked for them")
        upload = self.begin("b", b'{"crc32c": "AAAAAA=="}')
        self.assertEqual(self.put(upload, content, None)[0], 400)
        self.assertEqual(self.ask("GET", "/storage/v1/b/models/o/b")[0], 404)

    def test_conditions_on_generations_are_kept(self):
        generation = self.store("a", b"x")["generation"]
        path = "/upload/storage/v1/b/models/o?uploadType=media&name=a&ifGenerationMatch="
        self.assertEqual(self.ask("POST", path + "0", b"y")[0], 412)
        self.assertEqual(self.ask("POST", path + "-1", b"y")[0], 400)
        self.assertEqual(self.ask("POST", path + generation, b"y")[0], 200)
        self.assertEqual(self.ask("DELETE", f"/storage/v1/b/models/o/a?generation={generation}")[0], 404)
        self.assertEqual(self.ask("DELETE", f"/storage/v1/b/models/o/a?ifGenerationMatch={generation}")[0], 412)
        self.assertEqual(self.content_of("a"), b"y")
        self.assertEqual(self.ask("DELETE", "/storage/v1/b/models/o/a")[0], 204)
        self.assertEqual(self.ask("DELETE", "/storage/v1/b/models/o/a")[0], 404)

    def test_lists_come_in_pages(self):
        for i in range(5):
            self.store(f"d/{i}", b"x")
        found, page = [], ""
        while True:
            answer = self.ask("GET", f"/storage/v1/b/models/o?prefix=d%2F&maxResults=2&pageToken={page}")[1]
            found += [item["name"] for item in answer["items"]]
            page = answer.get("nextPageToken")
            if not page:
                break
        self.assertEqual(found, [f"d/{i}" for i in range(5)])
        self.assertEqual(self.ask("GET", "/storage/v1/b/models/o?delimiter=/")[1]["prefixes"], ["d/"])
        self.assertEqual(self.ask("GET", "/storage/v1/b/models/o?maxResults=x")[0], 400)
        self.assertEqual(self.ask("GET", "/storage/v1/b/models/o?pageToken=%2A")[0], 400)

    def test_buckets_are_made_and_removed(self):
        self.assertEqual(self.ask("POST", "/storage/v1/b?project=p", {"name": "made"})[1]["name"], "made")
        self.assertEqual(self.ask("POST", "/storage/v1/b?project=p", {"name": "made"})[0], 409)
        for body in ({}, {"name": "../x"}, {"name": 1}, []):
            self.assertEqual(self.ask("POST", "/storage/v1/b?project=p", body)[0], 400, body)
        self.store("a", b"x")
        self.assertEqual([item["name"] for item in self.ask("GET", "/storage/v1/b")[1]["items"]], ["made", "models"])
        self.assertEqual(self.ask("DELETE", "/storage/v1/b/models")[0], 409)
        self.assertEqual(self.ask("DELETE", "/storage/v1/b/made")[0], 204)
        self.assertEqual(self.ask("DELETE", "/storage/v1/b/made")[0], 404)


class ArgumentsTest(StorageCase):
    def test_a_job_reads_and_writes_by_arguments_that_name_objects(self):
        package = self.folder / "trainer"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "task.py").write_text("import os, pathlib, sys\n"
                                         "print('read', pathlib.Path(sys.argv[1]).read_text())\n"
                                         "pathlib.Path(sys.argv[2].split('=')[1] + 'made').write_text('by a job')\n"
                                         "print('asks', os.environ['STORAGE_EMULATOR_HOST'])\n"
                                         "raise SystemExit('it trains nothing')\n")  # fmt: skip
        self.store("x.csv", b"1,2")
        words = ["jobs", "submit", "reads", "--root", self.root, "--package-path", package, "--module-name",
                 "trainer.task", "--", "gs://models/x.csv", "--out=gs://models/"]  # fmt: skip
        code, _, err = self.tool(*words)
        self.assertEqual(code, 0, err)
        self.wait_for("reads", "FAILED")
        log = (self.root / "jobs/reads/logs/service.log").read_text()
        self.assertIn("read 1,2", log)
        self.assertIn(f"asks http://{self.address}", log)
        self.assertEqual(self.content_of("made"), b"by a job")


@unittest.skipUnless(GCLOUD, "there is no gcloud here")
class GcloudStorageTest(StorageCase):
    def gcloud(self, *words, code=0):
        environment = os.environ | {
            "CLOUDSDK_CONFIG": str(self.folder / "gcloud"),
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CORE_PROJECT": "p",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"http://{self.address}/",
        }
        done = subprocess.run([GCLOUD, "storage", *words], env=environment, cwd=self.folder, capture_output=True,
                              text=True, timeout=LONG)  # fmt: skip
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def test_objects_are_copied_shown_listed_and_removed(self):
        (self.folder / "x.csv").write_text("1,2\n")
        large = random.Random(1).randbytes(20_000_000)  # comes as a resumable upload
        (self.folder / "large").write_bytes(large)
        self.gcloud("buckets", "create", "gs://data")
        self.gcloud("cp", "x.csv", "large", "gs://data/d/")
        self.assertEqual(self.gcloud("cat", "gs://data/d/x.csv"), "1,2\n")
        self.assertEqual(self.gcloud("cat", "gs://data/d/*.csv"), "1,2\n")
        self.assertEqual(self.gcloud("ls").split(), ["gs://data/"])
        self.assertEqual(self.gcloud("ls", "gs://data").split(), ["gs://data/d/"])
        self.assertEqual(self.gcloud("ls", "gs://data/d").split(), ["gs://data/d/large", "gs://data/d/x.csv"])
        self.gcloud("cp", "gs://data/d/large", "back")
        self.assertEqual((self.folder / "back").read_bytes(), large)
        self.gcloud("cp", "-r", "gs://data/d", ".")
        self.assertEqual((self.folder / "d/x.csv").read_text(), "1,2\n")
        self.gcloud("cp", "gs://data/d/x.csv", "gs://other/y.csv")
        self.gcloud("mv", "gs://other/y.csv", "gs://other/z.csv")
        self.assertEqual(self.gcloud("cat", "gs://other/z.csv"), "1,2\n")
        self.gcloud("rm", "gs://data/d/x.csv")
        self.assertEqual(self.gcloud("ls", "gs://data/**").split(), ["gs://data/d/large"])
        self.gcloud("cat", "gs://data/d/x.csv", code=1)
        self.gcloud("rm", "-r", "gs://data")
        self.assertEqual(self.gcloud("ls").split(), ["gs://other/"])


if __name__ == "__main__":
    unittest.main()
