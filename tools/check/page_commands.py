"""Runs the marked code blocks of a page of the documentation, as a reader would (tools/check/check_docs.py describes the marks)."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = {"run": 1200, "slow": 7200}  # a block may run, on a busy machine
COPIED, LINKED = ("samples", "configs"), ("tools", "python")  # agents read what is in the folder itself
# A page's Python blocks are executed one after another in one interpreter, which reads the name of a file for each.
INTERPRETER = """
import sys, traceback
names = {"__name__": "__main__"}
for path in sys.stdin:
    try:
        exec(compile(open(path.strip(), encoding="utf-8").read(), "block", "exec"), names)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    open(path.strip() + ".code", "w").write(str(code))
"""


class Runner:
    """A scratch folder in which the blocks of a page run. `interpreter`: a Python with the package; without one, the system's, with the
    package of this tree and the library of the program's build."""

    def __init__(self, root, foretime, folder, interpreter=None):
        self.folder = pathlib.Path(folder)
        self.own = self.folder / ".check"
        self.own.mkdir()
        self.groups, self.python, self.count = [], None, 0
        (self.own / "foretime").symlink_to(foretime)
        python = interpreter or ("/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable)
        # A virtual environment is known by the path that its Python is started by.
        (self.own / "python3").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
        (self.own / "python3").chmod(0o755)
        for name in COPIED:
            shutil.copytree(root / name, self.folder / name)
        for name in LINKED:
            (self.folder / name).symlink_to(root / name)
        # For tools/quickstart.sh, which builds nothing then.
        self.environment = {
            **os.environ,
            "PATH": f"{self.own}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "FORETIME": "foretime",
        }
        for name in [name for name in self.environment if name.startswith("FORETIME_")]:
            self.environment.pop(name)
        if not interpreter:
            self.environment["PYTHONPATH"] = str(root / "python")
            library = foretime.parent.parent / "inference" / "capi" / "libforetime.so"  # of the same build
            if library.exists():
                self.environment["FORETIME_LIBRARY"] = str(library)

    def run(self, text, language, seconds):
        """Exit code, or None where the time limit ended the block, and what it printed."""
        self.count += 1
        output = self.own / f"output-{self.count}"
        code = (
            self._run_python(text, output, seconds) if language == "python" else self._run_bash(text, output, seconds)
        )
        return code, output.read_text(encoding="utf-8", errors="replace")

    def _run_bash(self, text, output, seconds):
        state = self.own / "state"
        script = (
            f"[ ! -e {state} ] || . {state}\nset -euo pipefail\n"
            f'trap \'{{ export -p; printf "cd %q\\n" "$PWD"; }} > {state}\' EXIT\n{text}'
        )
        with open(output, "wb") as printed:
            child = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.groups.append(child.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(seconds)
        return None

    def _run_python(self, text, output, seconds):
        block, code = self.own / f"block-{self.count}.py", self.own / f"block-{self.count}.py.code"
        switch = f"import os as _os\n_file = _os.open({str(output)!r}, _os.O_WRONLY | _os.O_CREAT)\n_os.dup2(_file, 1)\n_os.dup2(_file, 2)\n_os.close(_file)\n"
        block.write_text(switch + text, encoding="utf-8")
        if self.python is None:
            self.python = subprocess.Popen(
                ["python3", "-c", INTERPRETER],
                cwd=self.folder,
                env=self.environment,
                text=True,
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
            self.groups.append(self.python.pid)
        self.python.stdin.write(f"{block}\n")
        self.python.stdin.flush()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if code.exists() and code.read_text():
                return int(code.read_text())
            if self.python.poll() is not None:
                return self.python.returncode
            time.sleep(0.02)
        return None

    def close(self):
        """Ends what the blocks left running, such as agents, and waits for it."""
        if self.python is not None:
            self.python.stdin.close()
            self.python.wait()
        end = time.monotonic() + 60
        for group in self.groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)
                while time.monotonic() < end:
                    time.sleep(0.05)
                    os.killpg(group, 0)
                os.killpg(group, signal.SIGKILL)


NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"


def pattern_of(text, any_number):
    """A regular expression for an expected text, in which blanks stand for blanks of any width."""
    between = re.split(NUMBER, text.strip()) if any_number else [text.strip()]
    return NUMBER.join(re.sub(r"(\\ )+", r"\\s+", re.escape(part)) for part in between)


def missing_line(expected, printed, any_number=False):
    """The first expected line that does not follow the ones before it; None where all do."""
    rest = iter(printed.splitlines())
    for line in expected:
        if line.strip() in ("", "…"):
            continue
        pattern = re.compile(r".*".join(pattern_of(part, any_number) for part in line.split("…")))
        if not any(pattern.search(candidate) for candidate in rest):
            return line
    return None


def run_page(root, page, foretime, interpreter=None, slow=False, before=""):
    """Yields what is wrong with the marked blocks of a page. `before`: commands that run first in the same folder. `slow`: blocks marked
    `slow` run, too. The first block that fails ends the page."""
    with tempfile.TemporaryDirectory(prefix="check_docs.") as scratch:
        runner = Runner(root, foretime, scratch, interpreter)
        try:
            if before:
                code, printed = runner.run(before, "", SECONDS["slow"])
                if code != 0:
                    yield f"{page.name}: before it: {before}: exit code {code}:\n{last_lines(printed)}"
                    return
            printed, ran = "", False
            for block in page.blocks:
                verb, _, rest = block.mark.partition(" ")
                where, text = f"{page.name}:{block.number}", "\n".join(block.lines) + "\n"
                if verb == "file":
                    (runner.folder / rest.strip()).write_text(text, encoding="utf-8")
                elif verb in ("run", "slow"):
                    ran = verb == "run" or slow
                    if not ran:
                        continue
                    promised = int(re.sub(r".*exit=", "", rest)) if "exit=" in rest else 0
                    code, printed = runner.run(text, block.language, SECONDS[verb])
                    if code is None:
                        yield f"{where}: takes more than {SECONDS[verb]} s"
                        return
                    if code != promised and "this build has no board" in printed:
                        print(
                            f"{where}: not run, nor what follows it: this build has no board (tools/install-deps.sh --board)"
                        )
                        return
                    if code != promised:
                        yield f"{where}: exit code {code}, the page promises {promised}:\n{last_lines(printed)}"
                        return
                elif verb == "output" and ran:
                    line = missing_line(block.lines, printed, rest.strip() == "like")
                    if line is not None:
                        yield f"{where}: the command did not print '{line.strip()}':\n{printed}"
                else:
                    ran = False
        finally:
            runner.close()


def last_lines(text):
    return "\n".join(text.splitlines()[-12:])


def run_pages(root, pages, foretime, interpreter=None, slow=False, before=None):
    """`before`: commands by the name of the page that runs after them in the same folder; with `slow` it also runs without them."""
    marked = [page for page in pages if any(block.mark.startswith(("run", "slow")) for block in page.blocks)]
    tasks = [(page, (before or {}).get(page.name, "")) for page in marked]
    tasks += [(page, "") for page, commands in tasks if commands and slow]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for problems in pool.map(
            lambda task: list(run_page(root, task[0], foretime, interpreter, slow, task[1])),
            sorted(tasks, key=lambda task: not task[1]),
        ):
            yield from problems
