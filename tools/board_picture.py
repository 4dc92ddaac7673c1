#!/usr/bin/env python3
"""Makes the picture of the board that README.md shows: runs the quick start's sweep, and takes a picture of its page.

  tools/board_picture.py build/release/cli/foretime docs/figures/board.png

Needs Chromium and ChromeDriver (tools/install-deps.sh --tests) and a build with the board (--board)."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(SOURCE / "tests/cli"))
import browser  # noqa: E402


def main():
    if len(sys.argv) != 3 or browser.missing():
        sys.exit(browser.missing() or __doc__)
    program, picture = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    if picture.exists() and picture.stat().st_size > 0 and not picture.read_bytes().startswith(b"\x89PNG"):
        sys.exit(f"{picture}: exists and is no picture, expected a new file or a PNG to replace")
    with tempfile.TemporaryDirectory() as runs:

        def foretime(*arguments):
            return subprocess.run(
                [program, *arguments, "--runs", runs], cwd=SOURCE, check=True, capture_output=True, text=True
            ).stdout

        sweep = json.loads(foretime("submit", "configs/sweeps/quickstart.yaml", "--json"))["sweep"]
        foretime("agent", "--cpus", "2", "--until-empty")
        with subprocess.Popen(
            [program, "board", "--port", "0", "--runs", runs], stdout=subprocess.PIPE, text=True
        ) as board:
            try:
                address, token = re.search(r"(http://\S+)/#(token=\S+)", board.stdout.readline()).groups()
                window = browser.Browser(1200, 1270)
                try:
                    window.open(f"{address}/sweep/{sweep}#{token}")
                    window.wait_for(".parallel polyline")
                    window.wait_for("figure canvas")
                    window.run("document.activeElement.blur()")
                    window.shot(picture, whole=False)
                finally:
                    window.close()
            finally:
                board.terminate()
    print(f"{picture}: {picture.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
