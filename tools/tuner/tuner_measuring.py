"""How tuner_search.py measures: search time apart from building and running, programs alone on a core."""
import math
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "measure"))
from programs import NO_ERROR, measured_programs, result_of  # noqa: E402

FAILED = 1e9  # costs from here on are TVM's mark of a failure


class Clock:
    """Seconds, of the wall and of this process, less those between `pause` and `resume`. `mark` is where it paused first since
    it was set to None."""

    def __init__(self):
        self._start = self._now()
        self._paused = None
        self.mark = None

    @staticmethod
    def _now():
        return time.perf_counter(), time.process_time()

    def read(self):
        return tuple(now - start for now, start in zip(self._paused or self._now(), self._start))

    def pause(self):
        self._paused = self._now()
        self.mark = self.mark or self.read()

    def resume(self):
        self._start = tuple(now - passed for now, passed in zip(self._now(), self.read()))
        self._paused = None


def measured(inputs, core, urgent):
    """auto_scheduler's results of these inputs, in their order: each is built and run in a process of its own (measure/programs.py)."""
    results = {}
    for program, built, found, seconds in measured_programs(inputs, core, not urgent, 1 if urgent else 0, urgent):
        results[id(program)] = result_of(built, found, seconds)
    return [results[id(program)] for program in inputs]


def measure_instead_of_tvm(clock, core, urgent):
    """Whatever TVM's LocalRunner is asked to run from now on is built and run here, while the clock stands still; LocalBuilder does nothing."""
    import tvm._ffi
    from tvm.auto_scheduler.measure import BuildResult

    def run(inputs, *_):
        clock.pause()
        try:
            return measured(list(inputs), core, urgent)
        finally:
            clock.resume()

    tvm._ffi.register_func(
        "auto_scheduler.local_builder.build",
        lambda inputs, *_: [BuildResult("", [], NO_ERROR, "", 0.0) for _ in inputs],
        override=True,
    )
    tvm._ffi.register_func("auto_scheduler.local_runner.run", run, override=True)


def cost_of(result):
    """Mean seconds of a measurement, or infinity."""
    costs = [float(cost.value) for cost in result.costs]
    return statistics.fmean(costs) if int(result.error_no) == 0 and costs and max(costs) < FAILED else math.inf


def best_of_log(path, checkpoints):
    """{trial: place among the records} of the best program up to each checkpoint, and the log's measured inputs."""
    from tvm import auto_scheduler

    inputs, results = auto_scheduler.RecordReader(path).read_lines()
    costs = [cost_of(result) for result in results]
    best = {trial: min(range(min(trial, len(costs))), key=costs.__getitem__) for trial in checkpoints}
    return {trial: place for trial, place in best.items() if math.isfinite(costs[place])}, inputs
