"""Runs a program and reports the numbers that it prints: `metric_from` of a sweep file.

  foretime_metric.py --metric val_loss --stdout 'val_loss ([0-9.e+-]+)' -- python3 train.py …

The first group of the pattern is the metric, or the group `metric`; a group `step` is the step, and other named groups are further metrics.
Each line that matches is an evaluation, the last one the result. The program's output is passed on.
"""
import os
import re
import signal
import subprocess
import sys

sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir)))

from foretime.logged_run import LoggedRun, Number, current  # noqa: E402

USAGE = 2


class Reader:
    """Finds numbers in lines, and logs them."""

    def __init__(self, run: LoggedRun, metric: str, pattern: "re.Pattern[str]") -> None:
        self._run, self._metric, self._pattern = run, metric, pattern
        self._last: dict[str, Number] = {}
        self._count = 0

    def take(self, line: str) -> None:
        """Logs the numbers of a line that matches."""
        found = self._pattern.search(line)
        if found is None:
            return
        texts = {name: text for name, text in found.groupdict().items() if text is not None}
        first = texts.pop("metric", None) or next(
            (
                text
                for place, text in enumerate(found.groups(), 1)
                if text is not None and place not in self._pattern.groupindex.values()
            ),
            None,
        )
        step = texts.pop("step", "")
        texts = {**({} if first is None else {self._metric: first}), **texts}
        numbers: dict[str, Number] = {}
        for name, text in texts.items():
            try:
                numbers[name] = float(text)
            except ValueError:
                self._run.say(f"metric_from: {name}: found {text!r}, expected a number", once=f"text {name}")
        if numbers:
            self._count += 1
            self._last.update(numbers)
            self._run.log(int(step) if step.isdigit() else self._count, numbers, stops=False)

    def finish(self) -> None:
        """Reports the result."""
        if self._last:
            self._run.result(self._last)


def compiled(pattern: str) -> "re.Pattern[str]":
    """Returns the pattern; ends the process with code 2 where it is wrong."""
    try:
        made = re.compile(pattern)
    except re.error as error:
        sys.exit(_usage(f"{pattern!r}: {error}"))
    if made.groups == 0:
        sys.exit(
            _usage(f"{pattern!r}: found no group, expected one around the number, such as 'val_loss ([0-9.e+-]+)'")
        )
    return made


def _usage(text: str) -> int:
    print(f"foretime: metric_from.stdout: {text}", file=sys.stderr, flush=True)
    return USAGE


def main(words: "list[str]") -> int:
    """Runs the command behind `--`; returns its exit code, or 75 after a stop."""
    options = dict(zip(words[0:4:2], words[1:4:2]))
    if set(options) != {"--metric", "--stdout"} or words[4:5] != ["--"] or not words[5:]:
        return _usage("expected --metric NAME --stdout PATTERN -- COMMAND")
    pattern = compiled(options["--stdout"])
    run = current("metric")
    reader = Reader(run, options["--metric"], pattern)
    child = subprocess.Popen(words[5:], stdout=subprocess.PIPE)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: child.send_signal(received))
    assert child.stdout is not None
    asked = False
    for line in child.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        reader.take(line.decode(errors="replace"))
        if not asked and run.asked_to_stop:
            asked = True
            child.terminate()
    code = child.wait()
    if code == 0 or asked:
        reader.finish()
    run.close()
    if asked:
        return 75
    if code < 0:  # ends as the program did
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
