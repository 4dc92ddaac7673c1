"""Builds and runs programs of auto_scheduler, each in a process of its own, one at a time on a core where nothing else runs."""
import collections
import contextlib
import ctypes
import fcntl
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
MOST_SECONDS = 1.5  # that repetitions take, after the fewest of a slow program
DISTURBED = 0.03  # of a core, by others, during a measurement: it is done again
AT_ONCE = 10  # programs that are built before they are measured
TRIES, PATIENCE = 8, 6 * 3600  # measurements of one program; seconds to wait for a quiet machine
MEMORY = 6 << 30
WORST = 1e10  # seconds of a program that failed, as TVM writes it
ONE_THREAD = {"TVM_NUM_THREADS": "1", "TVM_BIND_THREADS": "0", "OMP_NUM_THREADS": "1"}  # environment of what measures
LATE = {"error": BUILD_LATE, "text": f"no program after {BUILD_TIMEOUT:g} s"}
TICK = 1 / os.sysconf("SC_CLK_TCK")
URGENT = 50  # real-time priority of a program that is measured while its core has other work


def may_be_urgent():
    """Whether a process here may have real-time priority. A child tries it: needs root or CAP_SYS_NICE, and a control group that has a
    share of real-time, or a kernel that asks for none (/proc/sys/kernel/sched_rt_runtime_us: -1)."""
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(URGENT))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def require_urgency(option):
    """Ends the program where programs could not be measured among other work."""
    if not may_be_urgent():
        sys.exit(
            f"{os.path.basename(sys.argv[0])}: {option}: no process here may have real-time priority, and timings would be those of "
            "programs among compilers: run it as root or with CAP_SYS_NICE, in a container after `echo -1 > "
            "/proc/sys/kernel/sched_rt_runtime_us`; or measure without this option"
        )


def take_core(core, urgent):
    """The calling thread is on this core alone from now on; `urgent`: before all others there."""
    os.sched_setaffinity(0, {core})
    if urgent:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(URGENT))


@contextlib.contextmanager
def on_core(core, urgent):
    """take_core for a while."""
    cores = os.sched_getaffinity(0)
    try:
        take_core(core, urgent)
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, cores)


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


class Turns:
    """How many programs are built at once: whoever builds holds a byte of a pipe, and gives it back before it answers; for a process that
    gave no answer, its parent does."""

    def __init__(self, count):
        self._take, self._put = os.pipe()
        os.write(self._put, b"t" * count)

    def take(self):
        os.read(self._take, 1)

    def give(self):
        os.write(self._put, b"t")

    def close(self):
        os.close(self._take)
        os.close(self._put)


class Child:
    """One program: it is built when it has a turn, and measured when that is asked for, any number of times. `turns`: None: at once;
    `build_cores`: that its compiler may use; empty: all; `urgent`: nothing else runs on the core while it is measured.
    """

    def __init__(self, measure_input, core, turns=None, build_cores=(), urgent=False):
        self.built = None  # None, {"seconds"} or {"error", "text"}
        self._turns, self._holds_turn, self._data, self._begin = turns, False, b"", None
        back, self._there = os.pipe()
        self.answers, order = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self._there)
                os.close(self.answers)
                serve(measure_input, core, turns, build_cores, urgent, back, order)
                code = 0
            finally:
                os._exit(code)
        os.close(back)
        os.close(order)
        self._open = (self._there, self.answers)

    def _message(self, seconds):
        """The next message, where it comes in so many seconds; None: not yet; {}: the process ended."""
        if b"\n" not in self._data:
            if not select.select([self.answers], [], [], seconds)[0]:
                return None
            piece = os.read(self.answers, 1 << 16)
            if not piece:
                return {}
            self._data += piece
        line, found, rest = self._data.partition(b"\n")
        if not found:
            return None
        self._data = rest
        return json.loads(line)

    def look(self):
        """Whether it is known how its build ended."""
        if self.built is not None:
            return True
        message = self._message(0)
        if message is not None and "began" in message:
            self._holds_turn, self._begin = True, time.monotonic()
        elif message is not None:
            self._holds_turn = self._holds_turn and not message
            self._end_build(message or self._ended())
        elif self._begin and (
            seconds_of(self.pid)[0] > BUILD_TIMEOUT or time.monotonic() - self._begin > WALL * BUILD_TIMEOUT
        ):
            self._end_build(LATE)
        return self.built is not None

    def _ended(self):
        """A build that gave no answer: the limit of its time ended it, or the compiler itself did."""
        how = self._how()
        return (
            LATE if how == f"signal {int(signal.SIGXCPU)}" else {"error": COMPILE, "text": "the compiler ended: " + how}
        )

    def _end_build(self, built):
        self.built = built
        if "error" in built:
            self._kill()
        if self._holds_turn and self._turns:
            self._turns.give()
        self._holds_turn = False

    def measure(self):
        """{"costs"} or {"error", "text"}."""
        try:
            os.write(self._there, b"m")
        except BrokenPipeError:
            return {"error": RUNTIME, "text": "the program ended: " + self._how()}
        before, until = seconds_of(self.pid)[0], time.monotonic() + WALL * RUN_TIMEOUT
        while time.monotonic() < until and seconds_of(self.pid)[0] - before < RUN_TIMEOUT:
            message = self._message(0.2)
            if message is not None:
                return message or {"error": RUNTIME, "text": "the program ended: " + self._how()}
        return {"error": RUN_LATE, "text": f"no measurement after {RUN_TIMEOUT:g} s"}

    def _how(self):
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"

    def _kill(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def close(self):
        self._kill()
        for descriptor in self._open:
            os.close(descriptor)
        self._open = ()


def serve(measure_input, core, turns, build_cores, urgent, orders, answers):
    """The child's side."""
    import tvm

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with its parent
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if build_cores:
        os.sched_setaffinity(0, build_cores)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)

    def answer(**message):
        os.write(answers, json.dumps(message).encode() + b"\n")

    if turns:
        turns.take()
    answer(began=True)
    # Its parent may be measuring another program when its time is over.
    resource.setrlimit(
        resource.RLIMIT_CPU, (math.ceil(seconds_of(os.getpid())[0] + BUILD_TIMEOUT), resource.RLIM_INFINITY)
    )
    built, function, tensors = build(measure_input)
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if turns:
        turns.give()
    answer(**built)
    take_core(core, urgent)
    arrays = None
    while function and os.read(orders, 1):
        try:
            arrays = arrays or arrays_for(tensors)
            timers = {}

            def timer(number):
                if number not in timers:
                    timers[number] = function.time_evaluator(function.entry_name, tvm.cpu(0), number=number, repeat=1)
                return timers[number](*arrays).mean

            answer(costs=repeat(timer))
        except Exception as error:  # pylint: disable=broad-except
            answer(error=RUNTIME, text=last_line(error))


def build(measure_input):
    """How it ended ({"seconds"} or {"error", "text"}), the function or None, and its tensors."""
    import tvm

    begin = time.monotonic()
    try:
        task = measure_input.task
        schedule, tensors = task.compute_dag.apply_steps_from_state(
            measure_input.state, layout_rewrite=task.layout_rewrite_option
        )
    except Exception as error:  # pylint: disable=broad-except
        return {"error": INSTANTIATION, "text": last_line(error)}, None, None
    try:
        function = tvm.build(schedule, tensors, target=task.target)
    except Exception as error:  # pylint: disable=broad-except
        return {"error": COMPILE, "text": last_line(error)}, None, None
    return {"seconds": time.monotonic() - begin}, function, tensors


def wait_until_built(children):
    """All of them. Each is looked at all the time: one that ended holds its turn until then, and the others wait for it."""
    while not all([child.look() for child in children]):
        select.select([child.answers for child in children if child.built is None], [], [], 0.2)


def first_built(children):
    """The first pair of an input and its child whose build has ended, taken out of the list."""
    while True:
        for place, (_, child) in enumerate(children):
            if child.look():
                return children.pop(place)
        select.select([child.answers for _, child in children], [], [], 0.2)


@contextlib.contextmanager
def core_to_itself(core):
    """One process at a time may measure on a core."""
    with open(f"/tmp/foretime-measure-{core}.lock", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measured_programs(inputs, core, alone, builders, urgent=False):
    """Measures programs one after the other on a core. Yields each input, how its build ended, what was measured ({"costs", "others"}, or
    {"error", "text"}) and how many seconds that took.

    Without `builders` nothing is built while something is measured: AT_ONCE programs are built, on all cores, then measured, with the
    machine to themselves (`alone`) or with that core. With them, so many are built at once on the other cores meanwhile, up to AT_ONCE
    ahead, and whichever is built first is measured next; `urgent`: on all cores, whose work waits while one of them measures.
    """
    cores = os.sched_getaffinity(0)
    build_cores = cores - {core} if builders and not urgent else ()
    turns, waiting, children = Turns(builders or len(cores)), collections.deque(inputs), []
    try:
        while waiting or children:
            if builders or not children:
                while waiting and len(children) < AT_ONCE:
                    children.append((waiting[0], Child(waiting[0], core, turns, build_cores, urgent)))
                    waiting.popleft()
            if not builders:
                wait_until_built([child for _, child in children])
            measured, child = first_built(children)
            begin = time.monotonic()
            try:
                with core_to_itself(core):
                    found = (
                        child.built
                        if "error" in child.built
                        else measure_undisturbed(child, None if alone else core, urgent)
                    )
            finally:
                child.close()
            yield measured, child.built, found, time.monotonic() - begin
    finally:
        for _, child in children:
            child.close()
        turns.close()


def result_of(built, found, seconds):
    """What measured_programs yields of a program, as auto_scheduler's MeasureResult."""
    from tvm.auto_scheduler import MeasureResult

    failed = "error" in found
    return MeasureResult(
        [WORST] if failed else found["costs"],
        found["error"] if failed else NO_ERROR,
        found["text"] if failed else "",
        built.get("seconds", 0.0) + seconds,
        time.time(),
    )


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


def measure_undisturbed(child, core=None, urgent=False):
    """What Child.measure gives, of a time when nothing else ran, or nothing on `core`, which is the program's; "others": cores, or
    the part of that core, that others kept busy meanwhile, at least. Of an `urgent` child what counts is how long it waited itself:
    on its core nothing else ran."""
    best = None
    for attempt in range(TRIES):
        if attempt > 0 and not urgent:
            wait_for_quiet(core)
        begin, busy, (ran, waited) = time.monotonic(), busy_seconds(core), seconds_of(child.pid)
        found = child.measure()
        if "error" in found:
            return found
        passed, (ran_now, waited_now) = time.monotonic() - begin, seconds_of(child.pid)
        # Two ticks more or less are no disturbance: a short measurement is a few of them long.
        others = 0.0 if urgent else busy_seconds(core) - busy - (ran_now - ran) - 2 * TICK
        found["others"] = round(max(0.0, others, waited_now - waited) / passed, 4)
        if best is None or found["others"] < best["others"]:
            best = found
        if best["others"] < DISTURBED:
            break
    return best
