"""Data at addresses: on nginx (http), moto (s3), our own service (gs), and a server that fails in many ways.

What is not installed is skipped by name: nginx is Debian's nginx-light, and moto PyPI's moto[server], in the Python
that DOWNPOUR_PLACES_PYTHON names.
"""

import contextlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.parse
import urllib.request

TOOL = os.path.join(os.environ["DOWNPOUR_BUILD"], "tools", "downpour")
PYTHON = os.environ.get("DOWNPOUR_PLACES_PYTHON", "python3")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
ROWS = [["age", "job"]] + [[str(n), f"word {n}"] for n in range(200_000)]
CSV = "".join(",".join(row) + "\n" for row in ROWS).encode()  # of more bytes than are read at once


def has_module(name):
    return subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True).returncode == 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def data(*arguments, **environment):
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "GOOGLE_", "STORAGE_"))}
    return subprocess.run([TOOL, "data", *arguments], capture_output=True, text=True,
                          env={**keep, "HOME": "/nonexistent", "GCE_METADATA_HOST": "127.0.0.1:1", **environment})


def answers(url):
    with socket.socket() as probe:
        return probe.connect_ex((urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(url).port)) == 0


def started(test, command, url):
    with open(os.devnull, "w") as nowhere:
        server = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
    test.addClassCleanup(server.wait)
    test.addClassCleanup(server.terminate)
    while not answers(url):
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"{command[0]} ended with {server.wait(0.05)}")


class Places:
    def read_whole(self, place, **environment):
        outcome = data("stats", place, "-o", "json", **environment)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        columns = {column["name"]: column for column in json.loads(outcome.stdout)["columns"]}
        self.assertEqual(columns["age"]["max"], len(ROWS) - 2)

    def refused(self, place, *words, **environment):
        outcome = data("stats", place, **environment)
        self.assertNotEqual(outcome.returncode, 0, outcome.stdout)
        for word in words:
            self.assertIn(word, outcome.stderr)
        self.assertNotIn(SECRET, outcome.stderr + outcome.stdout)
        return outcome.stderr


@unittest.skipUnless(NGINX, "nginx is not installed")
class NginxTest(Places, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="downpour-nginx-")
        cls.addClassCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        with open(os.path.join(folder.name, "a b.csv"), "wb") as file:
            file.write(CSV)
        open(os.path.join(folder.name, "empty.csv"), "wb").close()
        port = free_port()
        cls.url = f"http://127.0.0.1:{port}"
        with open(os.path.join(folder.name, "conf"), "w") as conf:
            conf.write(f"""daemon off; pid {folder.name}/pid; error_log {folder.name}/log; events {{}}
            http {{ access_log off; client_body_temp_path {folder.name}/t1; proxy_temp_path {folder.name}/t2;
              fastcgi_temp_path {folder.name}/t3; uwsgi_temp_path {folder.name}/t4; scgi_temp_path {folder.name}/t5;
              server {{ listen 127.0.0.1:{port}; root {folder.name};
                location /whole/ {{ alias {folder.name}/; max_ranges 0; }}
                location /denied/ {{ return 403; }}
                location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }} }} }}""")
        started(cls, [NGINX, "-c", os.path.join(folder.name, "conf"), "-e", os.path.join(folder.name, "log")], cls.url)

    def test_a_file_is_read_by_ranges(self):
        self.read_whole(self.url + "/a%20b.csv")
        self.read_whole(self.url + "/moved/a%20b.csv")

    def test_what_cannot_be_read_is_refused_by_name(self):
        self.refused(self.url + "/whole/a%20b.csv", "/whole/a%20b.csv: the server ignores ranges")
        self.refused(self.url + "/absent.csv", "/absent.csv is not there", "404")
        self.refused(self.url + "/denied/a.csv", "may not be read", "403")
        self.refused(self.url + "/empty.csv", "has no records")
        stderr = self.refused(self.url + f"/absent.csv?key={SECRET}", "/absent.csv?...")
        self.assertNotIn("key=", stderr)


class Failing(http.server.BaseHTTPRequestHandler):
    """Each path is another fault. Of /a.csv it answers ranges as it should."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in [("Content-Length", str(len(body))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        server, path = self.server, urllib.parse.urlsplit(self.path).path
        server.requests.append((self.path, dict(self.headers)))
        server.counts[path] = count = server.counts.get(path, 0) + 1
        first, last = (int(n) for n in self.headers["Range"].removeprefix("bytes=").split("-"))
        last = min(last, len(CSV) - 1)
        body, headers = CSV[first : last + 1], [("Content-Range", f"bytes {first}-{last}/{len(CSV)}"), ("ETag", '"1"')]
        if path.startswith("/busy") and count in (1, 2, 4):
            return self.answer(503, b"later")
        if path == "/down":
            return self.answer(503, b"never", [("Retry-After", "0")])
        if path == "/changed" and count > 1:
            headers[1] = ("ETag", '"2"')
        if path == "/changed-size" and count > 1:
            headers[0] = ("Content-Range", f"bytes {first}-{last}/{len(CSV) + 1}")
        if path == "/precondition" and count > 1:
            return self.answer(412 if self.headers["If-Match"] == '"1"' else 500)
        if path == "/short" and count > 1:
            body = body[:-1]
        if path == "/shifted":
            headers[0] = ("Content-Range", f"bytes {first + 1}-{last}/{len(CSV)}")
        if path == "/no-range":
            headers = headers[1:]
        if path == "/long":
            body += b"x"
        if path == "/to-file":
            return self.answer(302, b"", [("Location", "file:///etc/passwd")])
        if path == "/cut" and count in (2, 3):  # in mid-answer
            self.send_response(206)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return None
        return self.answer(206, body, headers)


class FailingServerTest(Places, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Failing)
        cls.server.requests, cls.server.counts = [], {}
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.server.shutdown)
        cls.url = f"http://127.0.0.1:{cls.server.server_address[1]}"

    def test_what_fails_for_a_while_is_asked_again(self):
        for path in ("/busy.csv", "/cut"):
            self.read_whole(self.url + path)

    def test_small_reads_cost_few_requests(self):
        self.read_whole(self.url + "/a.csv")
        self.assertLess(self.server.counts["/a.csv"], 3 * (2 + len(CSV) // (1 << 20)))

    def test_what_goes_on_failing_ends_with_what_the_server_said(self):
        self.refused(self.url + "/down", "/down: the server answers 503 6 times")
        self.refused(f"http://127.0.0.1:{free_port()}/a.csv", "connect", "6 times")

    def test_a_file_that_changes_is_an_error(self):
        for path in ("/changed", "/changed-size", "/precondition"):
            self.refused(self.url + path, f"{path} has changed since it was opened")

    def test_wrong_bytes_are_refused(self):
        for path in ("/short", "/shifted", "/no-range"):
            self.refused(self.url + path, f"{path}: the server was asked for bytes ", " and sent ")
        self.refused(self.url + "/long", "/long: the server sends more bytes than it was asked for")
        self.refused(self.url + "/to-file", "/to-file: Protocol")

    def test_botocore_signs_as_we_do(self):
        if not has_module("botocore"):
            self.skipTest("botocore is not installed")
        keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": "a/b+c=",
                "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": self.url}
        self.read_whole("s3://bucket/odd name+'(1)'/a&b=~é.csv", **keys)
        signed = [r for r in self.server.requests if r[0].startswith("/bucket/")]
        self.assertGreater(len(signed), 1)
        self.assertIn("If-Match", {name.title() for name in signed[-1][1]})
        for path, headers in signed:
            asked = subprocess.run([PYTHON, "-c", BOTOCORE, self.url + path, json.dumps(headers), SECRET],
                                   capture_output=True, text=True, check=True)
            self.assertEqual(asked.stdout.strip(), headers["authorization"].rpartition("Signature=")[2])


BOTOCORE = """
import datetime, json, sys
from botocore import auth, awsrequest, credentials
url, headers, secret = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
headers = {name.lower(): value for name, value in headers.items()}
names = headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
# What starts with x-amz- it adds itself, all of it: so a header that we left unsigned is a difference.
request = awsrequest.AWSRequest("GET", url, headers={n: headers[n] for n in names if not n.startswith("x-amz-")})
request.context["timestamp"] = headers["x-amz-date"]
signer = auth.S3SigV4Auth(credentials.Credentials("AKID", secret, "a/b+c="), "s3", "eu-west-1")
signer._modify_request_before_signing(request)
del request.headers["X-Amz-Date"]
request.headers["X-Amz-Date"] = headers["x-amz-date"]
print(signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request))
"""


@unittest.skipUnless(has_module("moto.server"), "moto[server] is not installed: set DOWNPOUR_PLACES_PYTHON")
class MotoTest(Places, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        started(cls, [PYTHON, "-m", "moto.server", "-p", str(port)], url)
        cls.keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": url}
        subprocess.run([PYTHON, "-c", FILL_S3, url], input=CSV, check=True)

    def test_objects_are_read_by_ranges(self):
        self.read_whole("s3://days/day 1/a+b.csv", **self.keys)

    def test_patterns_are_listed_page_by_page(self):
        outcome = data("index", "s3://days/many/*.csv", **self.keys)
        self.assertIn("s3://days/many/", outcome.stdout + outcome.stderr)

    def test_what_is_not_there_is_named(self):
        self.refused("s3://days/absent.csv", "s3://days/absent.csv is not there", "NoSuchKey", **self.keys)
        self.refused("s3://nobody/a.csv", "s3://nobody/a.csv is not there", "NoSuchBucket", **self.keys)


FILL_S3 = """
import sys, boto3
s3 = boto3.client("s3", endpoint_url=sys.argv[1], aws_access_key_id="a", aws_secret_access_key="b",
                  region_name="us-east-1")
s3.create_bucket(Bucket="days")
s3.put_object(Bucket="days", Key="day 1/a+b.csv", Body=sys.stdin.buffer.read())
for n in range(1005):
    s3.put_object(Bucket="days", Key=f"many/{n:04}.csv", Body=b"a,b\\n1,2\\n")
"""


class ServiceTest(Places, unittest.TestCase):
    """Our own gs://, which gcloud uses as well."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="downpour-service-")
        cls.addClassCleanup(folder.cleanup)
        port = free_port()
        cls.url = f"http://127.0.0.1:{port}"
        started(cls, [TOOL, "serve", "--root", folder.name, "--listen", f"127.0.0.1:{port}"], cls.url)
        cls.post("/storage/v1/b", json.dumps({"name": "days"}).encode())
        cls.put("day 1/a+b.csv", CSV)
        for n in range(1005):
            cls.put(f"many/{n:04}.csv", b"a,b\n1,2\n")

    @classmethod
    def post(cls, path, body, kind="application/json"):
        with urllib.request.urlopen(urllib.request.Request(cls.url + path, body, {"Content-Type": kind})) as answer:
            return answer.read()

    @classmethod
    def put(cls, name, body):
        cls.post(f"/upload/storage/v1/b/days/o?uploadType=media&name={urllib.parse.quote(name)}", body, "text/csv")

    def test_objects_are_read_by_ranges(self):
        self.read_whole("gs://days/day 1/a+b.csv", STORAGE_EMULATOR_HOST=self.url)
        self.refused("gs://days/absent.csv", "gs://days/absent.csv is not there", STORAGE_EMULATOR_HOST=self.url)


if __name__ == "__main__":
    unittest.main()
