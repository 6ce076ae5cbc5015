"""Who gets in at the job service's door, and what slow, large and false requests cost: by TLS and a token where others
reach it, and on loopback.

127.0.0.2 is as good as any address of another host: its clients are known by their token alone.
"""

import gzip
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import threading
import unittest
import unittest.mock
import zipfile

from cluster import LONG, free_port
from job_service import ServiceTest

JOBS = "/v1/projects/p/jobs"
TOKEN, VIEWERS = "0123456789abcdef", "fedcba9876543210"
CURL, GCLOUD = shutil.which("curl"), shutil.which("gcloud")
MEMORY_BUDGET = 192 << 20  # bytes by which what is refused may make the service grow
MUCH = 512 << 20  # which nobody may be read for


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"process {pid} has ended")


class ElsewhereTest(ServiceTest):
    """A service that others reach."""

    def setUp(self):
        super().setUp()
        port = free_port()
        self.address, self.at = f"127.0.0.2:{port}", f"https://127.0.0.2:{port}"
        self.token, self.viewers = self.secret("token", TOKEN), self.secret("viewers", VIEWERS)
        self.certificate, self.key = self.certify("door", "IP:127.0.0.2")
        self.serve()

    def secret(self, name, text):
        path = self.folder / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return path

    def certify(self, name, subject):
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                   "-addext", f"subjectAltName={subject}", "-keyout", key, "-out", certificate]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        return certificate, key

    def serve(self):
        self.start_service("--token-file", self.token, "--viewer-token-file", self.viewers, "--certificate",
                           self.certificate, "--private-key", self.key)  # fmt: skip

    def jobs(self, *words, code=0, service=None, token=None, ca=None):
        flags = ["--service", service or self.at, "--token-file", token or self.token]
        flags += [] if ca == "" else ["--ca-certificate", ca or self.certificate]
        found, out, err = self.tool("jobs", *words, *flags)
        self.assertEqual(found, code, out + err)
        return out + err

    def curl(self, path, *words, token=TOKEN):
        """(status, answer); status 0: no answer came."""
        said = ["-H", f"Authorization: Bearer {token}"] if token else []
        command = [CURL, "--silent", "--cacert", self.certificate, "--write-out", "\n%{http_code}", *said, *words]
        done = subprocess.run([*command, self.at + path], capture_output=True, text=True, timeout=LONG)
        answer, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(answer) if answer.startswith("{") else answer

    def test_our_verbs_reach_it_by_its_token_and_certificate(self):
        self.job_text()
        self.assertIn(f"stream-logs first --service {self.at}", self.jobs("submit", "first", "--file", self.job_file))
        self.jobs("wait", "first")
        self.assertIn("SUCCEEDED", self.jobs("list"))
        self.assertIn("the run ended with exit code 0", self.jobs("stream-logs", "first"))
        self.assertIn('"jobId": "first"', self.jobs("describe", "first"))
        self.assertIn("SUCCEEDED", self.jobs("list", token=self.viewers))
        self.assertIn("this token is a viewer's", self.jobs("delete", "first", code=1, token=self.viewers))
        self.jobs("delete", "first")

    def test_what_is_wrong_is_said_with_its_remedy(self):
        self.assertIn("wants its token: --token-file", self.jobs("list", code=1, token=self.secret("other", "x" * 20)))
        self.assertIn("nobody vouches for the certificate", self.jobs("list", code=1, ca=""))
        other, _ = self.certify("other", "IP:127.0.0.2")
        self.assertIn("nobody vouches for the certificate", self.jobs("list", code=1, ca=other))
        self.assertIn("by https:// alone", self.jobs("list", code=1, service=self.at.replace("https", "http")))
        self.assertIn("is like https://h0:7000", self.jobs("list", code=1, service=self.address))
        self.token.chmod(0o640)
        self.assertIn("chmod 600", self.jobs("list", code=1))
        self.token.chmod(0o600)
        code, _, err = self.tool("jobs", "list", "--root", self.root)  # the same machine's and user's
        self.assertEqual(code, 1)
        self.assertIn("nobody vouches for the certificate", err)
        where = ["--root", self.root, "--token-file", self.token, "--ca-certificate", self.certificate]
        code, _, err = self.tool("jobs", "list", *where)
        self.assertEqual(code, 0, err)
        code, _, err = self.tool("jobs", "list")
        self.assertEqual(code, 2)
        self.assertIn("--root DIR, or --service", err)

    def test_a_certificate_of_another_name_is_refused(self):
        self.service.end()
        self.certificate, self.key = self.certify("elsewhere", "DNS:elsewhere.example")
        self.serve()
        self.assertIn("or it has another name", self.jobs("list", code=1))

    def test_a_private_key_that_all_may_read_is_refused(self):
        self.service.end()
        self.key.chmod(0o644)
        flags = ["--token-file", self.token, "--certificate", self.certificate, "--private-key", self.key]
        code, _, err = self.tool("serve", "--root", self.root, "--listen", self.address, *flags)
        self.assertEqual(code, 2)
        self.assertIn("chmod 600", err)

    @unittest.skipUnless(CURL, "there is no curl")
    def test_curl_is_answered_by_token_and_refused_without(self):
        self.assertEqual(self.curl(JOBS), (200, {}))
        self.assertEqual(self.curl(JOBS, token=VIEWERS), (200, {}))
        for path, words, token, status in [
            (JOBS, [], None, 401),
            (JOBS, [], TOKEN[:-1], 401),
            (JOBS, ["-d", "{}"], VIEWERS, 403),
            (JOBS + "/one", ["-X", "DELETE"], VIEWERS, 403),
            (JOBS, ["-H", "Origin: https://evil.example"], TOKEN, 403),
            (JOBS, ["-H", "Origin: null"], TOKEN, 403),
            (JOBS, ["-H", "Sec-Fetch-Site: cross-site"], TOKEN, 403),
        ]:
            code, answer = self.curl(path, *words, token=token)
            self.assertEqual((code, answer["error"]["code"]), (status, status), (path, words, answer))
        logs = self.curl("/v2/entries:list", "-d", '{"filter": "resource.labels.job_id=\\"none\\""}', token=VIEWERS)
        self.assertEqual(logs[0], 404, "it only reads, and there is no such job")
        self.assertIn("downpour_jobs", self.curl("/metrics", token=VIEWERS)[1])
        self.assertEqual(self.curl(JOBS, "--tls-max", "1.1")[0], 0)
        plain = subprocess.run([CURL, "--silent", f"http://{self.address}{JOBS}"], capture_output=True, timeout=LONG)
        self.assertNotEqual(plain.returncode, 0)

    @unittest.skipUnless(GCLOUD, "there is no gcloud here")
    def test_gcloud_trusts_its_certificate_and_sends_its_token(self):
        self.job_text()
        self.jobs("submit", "first", "--file", self.job_file)
        environment = os.environ | {
            "CLOUDSDK_CONFIG": str(self.folder / "gcloud"), "CLOUDSDK_CORE_PROJECT": "p",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": str(self.certificate),
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(self.token), "CLOUDSDK_API_ENDPOINT_OVERRIDES_ML": f"{self.at}/",
        }  # fmt: skip
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # which would be heard before gcloud's own setting
            environment.pop(name, None)
        command = [GCLOUD, "ai-platform", "jobs", "describe", "first"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("jobId: first", done.stdout)
        del environment["CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 1)

    def drip_handshakes(self, ended):
        """Beginnings of handshakes from another address, a byte now and then, and again whenever one is cut off."""
        host, port = self.address.split(":")
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(400)
        while not ended.is_set():
            try:
                with socket.create_connection((host, int(port)), source_address=("127.0.0.3", 0)) as connection:
                    for byte in hello:
                        connection.sendall(bytes([byte]))
                        if ended.wait(0.5):
                            return
            except OSError:
                continue

    def test_one_address_that_drips_keeps_no_other_out(self):
        ended = threading.Event()
        drips = [threading.Thread(target=self.drip_handshakes, args=(ended,)) for _ in range(100)]
        for thread in drips:
            thread.start()
        try:
            self.job_text()
            self.jobs("submit", "first", "--file", self.job_file)
            self.jobs("wait", "first")
        finally:
            ended.set()
            for thread in drips:
                thread.join()


class DoorTest(ServiceTest):
    """On loopback, where the same user needs no password."""

    def setUp(self):
        super().setUp()
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.enterContext(unittest.mock.patch.dict(os.environ, TMPDIR=str(self.scratch)))
        self.start_service()
        self.port = int(self.address.split(":")[1])
        self.before = resident_bytes(self.service.pid)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=LONG)
        self.addCleanup(connection.close)
        return connection

    def send_until_cut_off(self, head, block):
        """(bytes that were taken, the answer)."""
        connection = self.connect()
        sent = 0
        try:
            connection.sendall(head)
            while sent < MUCH:
                connection.sendall(block)
                sent += len(block)
        except OSError:
            pass
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except OSError:
            pass
        return sent, answer

    def check_unharmed(self):
        self.assertLess(resident_bytes(self.service.pid) - self.before, MEMORY_BUDGET)
        self.assertEqual(self.ask("GET", JOBS)[0], 200, "it serves as before")

    def test_a_head_without_end_is_cut_off(self):
        for line in (b"X-Filler: " + b"x" * 1000 + b"\r\n", b"a: b\r\n" * 200):
            sent, _ = self.send_until_cut_off(f"GET {JOBS} HTTP/1.1\r\nHost: {self.address}\r\n".encode(), line)
            self.assertLess(sent, MUCH)
        sent, _ = self.send_until_cut_off(b"GET /", b"a" * 65536)
        self.assertLess(sent, MUCH)
        self.check_unharmed()

    def test_a_body_without_end_is_cut_off(self):
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        for method, path in (("POST", JOBS), ("POST", "/nothing"), ("PUT", "/nothing"), ("PATCH", "/nothing"),
                             ("DELETE", "/nothing"), ("PRI", "/nothing"), ("GET", JOBS)):  # fmt: skip
            head = f"{method} {path} HTTP/1.1\r\nHost: {self.address}\r\nTransfer-Encoding: chunked\r\n\r\n"
            sent, _ = self.send_until_cut_off(head.encode(), chunk)
            self.assertLess(sent, MUCH, (method, path))
        self.check_unharmed()

    def test_what_is_too_long_is_refused_with_a_sentence(self):
        status, answer = self.ask("POST", JOBS, b'{"jobId": "' + b"x" * 3_000_000 + b'"}')
        self.assertEqual((status, answer["error"]["status"]), (413, "OUT_OF_RANGE"))
        self.assertIn("at most 2097152 bytes", answer["error"]["message"])
        status, answer = self.ask("GET", JOBS + "?filter=" + "a" * 8300)
        self.assertEqual(status, 414)
        self.assertIn("shorter", answer["error"]["message"])

    def test_a_body_that_grows_when_it_is_unpacked_is_refused(self):
        bomb = gzip.compress(bytes(MUCH), compresslevel=1)
        for path in (JOBS, "/upload/storage/v1/b/models/o?uploadType=media&name=a"):
            status, answer = self.ask("POST", path, bomb, {"Content-Encoding": "gzip"})
            self.assertEqual(status, 413, answer)
        self.check_unharmed()

    def test_a_name_that_was_bound_anew_is_refused(self):
        for host, status in ((f"127.0.0.1:{self.port}", 200), (f"localhost:{self.port}", 200), ("evil.example", 403),
                             (f"evil.example:{self.port}", 403), ("127.0.0.1", 403), ("localhost:1", 403), ("", 403),
                             (f"127.0.0.1:{self.port}.evil.example", 403)):  # fmt: skip
            self.assertEqual(self.ask("GET", JOBS, headers={"Host": host})[0], status, host)
        connection = self.connect()
        connection.sendall(f"GET {JOBS} HTTP/1.0\r\n\r\n".encode())  # and without a name
        self.assertIn(b" 403 ", connection.recv(65536).split(b"\r\n")[0])

    def test_silent_and_dripping_clients_are_cut_off(self):
        silent, drips = self.connect(), self.connect()
        silent.sendall(b"GET / HT")
        said = 0
        try:
            for byte in (b"x" * LONG):
                drips.sendall(bytes([byte]))
                said += 1
                threading.Event().wait(0.5)
        except OSError:
            pass
        self.assertLess(said, LONG)
        self.assertLess(len(silent.recv(65536)), 1000)  # it has ended, or its error says so
        self.check_unharmed()

    def fail_package(self, name, packed):
        """Why the job of that package fails."""
        path = f"/upload/storage/v1/b/models/o?uploadType=media&name={name}"
        self.assertEqual(self.ask("POST", path, packed)[0], 200)
        job = name.split(".")[0]
        body = {"jobId": job, "trainingInput": {"scaleTier": "BASIC", "pythonModule": "t.task",
                                                "packageUris": [f"gs://models/{name}"]}}  # fmt: skip
        self.assertEqual(self.ask("POST", JOBS, body)[0], 200)
        why = self.wait_for(job, "FAILED")["errorMessage"]
        self.assertEqual([*self.scratch.glob("downpour-*/**/packages")], [], "what is refused takes no room")
        return why

    def tar(self, member):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            archive.addfile(member)
        return packed.getvalue()

    def zip(self, name, mode=0o100644, content=b"x"):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, mode << 16
            archive.writestr(info, content)
        return packed.getvalue()

    def member(self, name, kind=tarfile.REGTYPE, link=""):
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        return member

    def test_packages_that_leave_their_folder_or_link_out_of_it_fail_by_name(self):
        outside, link = "outside its folder", "no plain file"
        for i, (packed, ending, why) in enumerate([
            (self.tar(self.member("t-0/../../../../stolen")), "tar.gz", outside),
            (self.tar(self.member("/etc/stolen")), "tar.gz", outside),
            (self.tar(self.member("t-0/a", tarfile.SYMTYPE, "/etc")), "tar.gz", link),
            (self.tar(self.member("t-0/a", tarfile.LNKTYPE, "/etc/passwd")), "tar.gz", link),
            (self.tar(self.member("t-0/a", tarfile.CHRTYPE)), "tar.gz", link),
            (self.tar(self.member("t-0/a", tarfile.FIFOTYPE)), "tar.gz", link),
            (self.zip("../../../../stolen"), "zip", outside),
            (self.zip("/etc/stolen"), "zip", outside),
            (self.zip("t/../../stolen"), "whl", outside),
            (self.zip("t/a", mode=0o120777, content=b"/etc"), "zip", link),
        ]):  # fmt: skip
            self.assertIn(why, self.fail_package(f"bad{i}.{ending}", packed), f"{i}")
        self.assertEqual([path for path in self.folder.rglob("*stolen*")], [])
        self.check_unharmed()

    def test_packages_that_unpack_to_too_much_are_not_unpacked(self):
        huge = tarfile.TarInfo("t-0/huge")
        huge.size = 2 << 30
        why = self.fail_package("claims.tar.gz", gzip.compress(huge.tobuf() + bytes(10240)))
        self.assertIn("is larger than 1073741824 bytes unpacked", why)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
            for i in range(20_001):
                archive.addfile(tarfile.TarInfo(f"t-0/{i}"))
        self.assertIn("has more than 20000 files", self.fail_package("many.tar.gz", packed.getvalue()))
        self.check_unharmed()

    def test_a_resumable_upload_beyond_the_bound_is_refused(self):
        path = "/upload/storage/v1/b/models/o?uploadType=resumable&name=a"
        self.assertEqual(self.ask("POST", path, b"{}")[0], 200)
        connection = self.connect()
        connection.sendall(f"PUT {path}&upload_id=none HTTP/1.1\r\nHost: {self.address}\r\n"
                           f"Content-Length: {1 << 60}\r\n\r\n".encode())  # fmt: skip
        self.assertRegex(connection.recv(65536).split(b"\r\n")[0], rb" 4\d\d ")
        self.check_unharmed()


if __name__ == "__main__":
    unittest.main()
