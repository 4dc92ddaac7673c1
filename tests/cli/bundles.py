"""Small bundles and what they score, for the tests of this folder that need no training."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess

from program import FORETIME, LIMIT, SOURCE, ProgramTest, environment

SAMPLE_FILES = os.environ.get("FORETIME_SAMPLE_FILES", str(SOURCE / "build/release/tests/inference/sample_files"))


class BundleTest(ProgramTest):
    """The files of tuner_sample_files lie in self.folder."""

    def setUp(self):
        super().setUp()
        subprocess.run([SAMPLE_FILES, self.folder], check=True, timeout=LIMIT)

    def read(self, name):
        return (self.folder / name).read_bytes()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=LIMIT)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Server:
    """foretime serve; `socket` lies in the test's folder."""

    def __init__(self, test, bundle, *options, port=False):
        self.path = test.folder / "socket"
        arguments = [FORETIME, "serve", str(test.folder / bundle), "--socket", str(self.path), *map(str, options)]
        if port:
            arguments += ["--port", "0"]
        self.process = subprocess.Popen(
            arguments, env=environment(), cwd=test.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        test.addCleanup(self.kill)
        lines = [self.process.stdout.readline() for _ in range(1 + port)]
        if not all("listening on" in line for line in lines):
            raise AssertionError(f"{lines} {self.process.communicate(timeout=LIMIT)}")
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", lines[1]).group(1)) if port else None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def connect(self):
        return UnixConnection(self.path)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """(status, answer) of one request, on a connection of its own."""
        own = connection is None
        connection = connection or self.connect()
        try:
            content = json.dumps(body) if isinstance(body, (dict, list)) else body
            kind = {"Content-Type": "application/json"} if isinstance(body, (dict, list)) else {}
            connection.request(method, path, content, {**kind, **(headers or {})})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            if own:
                connection.close()

    def post(self, path, body, headers=None):
        """The answer to a request that succeeds."""
        status, answer = self.ask("POST", path, body, headers)
        if status != 200:
            raise AssertionError(f"{path}: {status} {answer}")
        return answer

    def end(self, how=signal.SIGTERM):
        """The exit code after a signal."""
        self.process.send_signal(how)
        return self.process.wait(LIMIT)
