"""Trials of the queue that a running Python process takes: the process that an agent starts for a trial hands its place to that process.

Run as a program with the path of a socket, it sends the variables by which a trial knows its agent, and waits for the exit code.
"""
from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any, Optional

LIFE_SIGN = 60.0  # seconds
VARIABLES = ("FORETIME_TRIAL", "FORETIME_PROGRESS", "FORETIME_PROGRESS_TCP", "FORETIME_PROGRESS_TOKEN")


class Request:
    """A trial that waits for its result."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        content = b""
        while not content.endswith(b"\n"):
            received = channel.recv(65536)
            if not received:
                break
            content += received
        self.environment: dict[str, str] = json.loads(content or b"{}")

    def answer(self, code: int) -> None:
        """Ends the trial's process with this exit code. The process may have been ended meanwhile."""
        try:
            self._channel.sendall(f"{code}\n".encode())
        except OSError:
            pass
        self._channel.close()


class Relay:
    """The socket at which trials arrive, in a folder of its own."""

    def __init__(self) -> None:
        self._made = tempfile.TemporaryDirectory(prefix="foretime-relay-")
        self.folder = pathlib.Path(self._made.name)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.folder / "trials"))
        self._socket.listen(16)
        self._socket.settimeout(0.1)

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *arguments: Any) -> None:
        self._socket.close()
        self._made.cleanup()

    def command(self) -> list[str]:
        """Returns the `command` of the sweep."""
        return [sys.executable, "-I", str(pathlib.Path(__file__).resolve()), str(self.folder / "trials")]

    def next_trial(self, agent: subprocess.Popen[bytes]) -> Optional[Request]:
        """Waits for the next trial; None when the agent has ended."""
        while True:
            try:
                channel, _ = self._socket.accept()
            except socket.timeout:
                if agent.poll() is not None:
                    return None
                continue
            channel.settimeout(None)
            request = Request(channel)
            if request.environment:
                return request


def main(path: str) -> int:
    """The process of a trial. Returns its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(75))
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(path)
    channel.sendall((json.dumps({name: os.environ[name] for name in VARIABLES if name in os.environ}) + "\n").encode())
    channel.settimeout(LIFE_SIGN)
    answer = b""
    while not answer.endswith(b"\n"):
        try:
            received = channel.recv(64)
        except socket.timeout:
            print("the trial runs in the process that called wandb.agent", flush=True)  # output is a sign of life
            continue
        if not received:
            return 1
        answer += received
    return int(answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
