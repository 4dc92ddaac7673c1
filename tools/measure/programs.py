"""Builds and runs programs of auto_scheduler, each in a process of its own, one at a time on a core where nothing else runs."""
import ctypes
import json
import math
import os
import resource
import select
import signal
import statistics
import sys
import time

BUILD_TIMEOUT, RUN_TIMEOUT = 15.0, 10.0  # seconds of its own: others that keep the cores busy make no program late
WALL = 20  # times as long, of the wall
NO_ERROR, INSTANTIATION, COMPILE, RUNTIME, BUILD_LATE, RUN_LATE = 0, 1, 2, 4, 6, 7  # auto_scheduler's MeasureErrorNo
REPEAT_SECONDS, FEWEST, MOST, SPREAD = 0.02, 4, 14, 0.01  # of one repetition; repetitions; of the mean, relative
MOST_SECONDS = 1.5   # that repetitions take, after the fewest of a slow program
DISTURBED = 0.03     # of a core, by others, during a measurement: it is done again
TRIES, PATIENCE = 8, 6 * 3600  # measurements of one program; seconds to wait for a quiet machine
MEMORY = 6 << 30
TICK = 1 / os.sysconf("SC_CLK_TCK")


def spread_of(seconds):
    """The standard error of the mean, relative to it."""
    return statistics.stdev(seconds) / math.sqrt(len(seconds)) / statistics.fmean(seconds)


def arrays_for(tensors):
    """Random inputs: floats in [-1, 1); integers that are row numbers stay below the table's rows."""
    import numpy as np
    import tvm
    random, found = np.random.default_rng(0), []
    rows = min((int(t.shape[0]) for t in tensors if "table" in t.op.name), default=100)
    for t in tensors:
        shape = tuple(int(extent) for extent in t.shape)
        if "float" in t.dtype:
            values = random.random(shape, np.float32) * 2 - 1
        else:
            values = random.integers(0, rows if t.dtype == "int32" else 100, shape)
        found.append(tvm.nd.array(values.astype(t.dtype)))
    return found


def repeat(timer):
    """Seconds of the program in each repetition, until their mean is known."""
    timer(1)
    first = timer(1)
    number = max(1, math.ceil(REPEAT_SECONDS / max(first, 1e-7)))
    seconds, begin = [], time.monotonic()
    while len(seconds) < MOST:
        seconds.append(timer(number))
        passed = time.monotonic() - begin
        if len(seconds) >= 2 and passed > MOST_SECONDS:
            break
        if len(seconds) >= FEWEST and spread_of(seconds) < SPREAD:
            break
    return seconds


class Child:
    """One program: it is built at once and measured when that is asked for, any number of times."""

    def __init__(self, measure_input, core):
        self.built = None  # None, {"seconds"} or {"error", "text"}
        back, self._there = os.pipe()
        self._back, order = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self._there)
                os.close(self._back)
                serve(measure_input, core, back, order)
                code = 0
            finally:
                os._exit(code)
        os.close(back)
        os.close(order)
        self._open = (self._there, self._back)

    def _read(self, seconds, before):
        """The next message; None: it ran for so many seconds after its first `before`; {}: the process ended."""
        data, until = b"", time.monotonic() + WALL * seconds
        while time.monotonic() < until and seconds_of(self.pid)[0] - before < seconds:
            if not select.select([self._back], [], [], 0.2)[0]:
                continue
            piece = os.read(self._back, 1 << 16)
            if not piece:
                return {}
            data += piece
            if data.endswith(b"\n"):
                return json.loads(data)
        return None

    def wait_built(self):
        if self.built is None:
            message = self._read(BUILD_TIMEOUT, 0.0)
            if message is None:
                self.built = {"error": BUILD_LATE, "text": f"no program after {BUILD_TIMEOUT:g} s"}
            else:
                self.built = message or {"error": COMPILE, "text": "the compiler ended: " + self._how()}
        return "error" not in self.built

    def measure(self):
        """{"costs"} or {"error", "text"}."""
        try:
            os.write(self._there, b"m")
        except BrokenPipeError:
            return {"error": RUNTIME, "text": "the program ended: " + self._how()}
        message = self._read(RUN_TIMEOUT, seconds_of(self.pid)[0])
        if message is None:
            return {"error": RUN_LATE, "text": f"no measurement after {RUN_TIMEOUT:g} s"}
        return message or {"error": RUNTIME, "text": "the program ended: " + self._how()}

    def _how(self):
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        for descriptor in self._open:
            os.close(descriptor)
        self._open = ()


def serve(measure_input, core, orders, answers):
    """The child's side."""
    import tvm
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with its parent
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)

    def answer(**message):
        os.write(answers, json.dumps(message).encode() + b"\n")

    begin = time.monotonic()
    try:
        task = measure_input.task
        schedule, tensors = task.compute_dag.apply_steps_from_state(measure_input.state, layout_rewrite=task.layout_rewrite_option)
    except Exception as error:  # pylint: disable=broad-except
        return answer(error=INSTANTIATION, text=last_line(error))
    try:
        function = tvm.build(schedule, tensors, target=task.target)
    except Exception as error:  # pylint: disable=broad-except
        return answer(error=COMPILE, text=last_line(error))
    answer(seconds=time.monotonic() - begin)
    arrays = None
    while os.read(orders, 1):
        try:
            os.sched_setaffinity(0, {core})
            arrays = arrays or arrays_for(tensors)
            timers = {}

            def timer(number):
                if number not in timers:
                    timers[number] = function.time_evaluator(function.entry_name, tvm.cpu(0), number=number, repeat=1)
                return timers[number](*arrays).mean

            answer(costs=repeat(timer))
        except Exception as error:  # pylint: disable=broad-except
            answer(error=RUNTIME, text=last_line(error))
    return None


def last_line(error):
    return (str(error).strip().splitlines() or ["?"])[-1][:300]


def busy_seconds(core=None):
    """Of all cores together, or of one, since the machine started, stolen time as well, in ticks of 10 ms."""
    name = "cpu" if core is None else f"cpu{core}"
    with open("/proc/stat", encoding="ascii") as file:
        fields = next([int(field) for field in line.split()[1:9]] for line in file if line.split()[0] == name)
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def seconds_of(pid):
    """Seconds that a process ran, and that it waited for a core."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        ran, waited, _ = file.read().split()
    return int(ran) / 1e9, int(waited) / 1e9


def wait_for_quiet(core=None):
    """Until the machine, or one core, does nothing for a second. False: it never did."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        begin = busy_seconds(core)
        time.sleep(1)
        if busy_seconds(core) - begin < DISTURBED + 2 * TICK:
            return True
    return False


def measure_undisturbed(child, core=None):
    """What Child.measure gives, of a time when nothing else ran, or nothing on `core`, which is the program's; "others": cores, or
    the part of that core, that others kept busy meanwhile, at least."""
    best = None
    for attempt in range(TRIES):
        if attempt > 0:
            wait_for_quiet(core)
        begin, busy, (ran, waited) = time.monotonic(), busy_seconds(core), seconds_of(child.pid)
        found = child.measure()
        if "error" in found:
            return found
        passed, (ran_now, waited_now) = time.monotonic() - begin, seconds_of(child.pid)
        # Two ticks more or less are no disturbance: a short measurement is a few of them long.
        others = busy_seconds(core) - busy - (ran_now - ran) - 2 * TICK
        found["others"] = round(max(0.0, others, waited_now - waited) / passed, 4)
        if best is None or found["others"] < best["others"]:
            best = found
        if best["others"] < DISTURBED:
            break
    return best
