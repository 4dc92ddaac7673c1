"""How tuner_search.py measures: search time apart from building and running, programs alone on a core."""
import math
import os
import statistics
import time

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


def take_measuring_apart(clock, core):
    """Stops the clock while programs are built and run; runs them on one core by one thread."""
    import tvm._ffi
    from tvm.auto_scheduler import measure

    def timed(function):
        def call(*arguments):
            clock.pause()
            try:
                return function(*arguments)
            finally:
                clock.resume()
        return call

    def pinned(function):
        def call(*arguments):
            cores, environment = os.sched_getaffinity(0), dict(os.environ)
            os.sched_setaffinity(0, {core})
            os.environ.update(TVM_NUM_THREADS="1", TVM_BIND_THREADS="0", OMP_NUM_THREADS="1")
            try:
                return function(*arguments)
            finally:
                os.environ.clear()
                os.environ.update(environment)
                os.sched_setaffinity(0, cores)
        return call

    tvm._ffi.register_func("auto_scheduler.local_builder.build", timed(measure.local_builder_build), override=True)
    tvm._ffi.register_func("auto_scheduler.local_runner.run", timed(pinned(measure.local_run)), override=True)


def cost_of(result):
    """Mean seconds of a measurement, or infinity."""
    costs = [float(cost.value) for cost in result.costs]
    return statistics.fmean(costs) if int(result.error_no) == 0 and costs and max(costs) < FAILED else math.inf


def verify(best_inputs, builder):
    """{trial: seconds}: the median of ten longer measurements of the best program at each checkpoint."""
    from tvm import auto_scheduler
    runner = auto_scheduler.LocalRunner(timeout=30, number=1, repeat=10, min_repeat_ms=100)
    verified, seconds = {}, {}
    for trial, (place, measured) in best_inputs.items():
        if place not in seconds:
            result = runner.run([measured], builder.build([measured], 0), 0)[0]
            costs = [float(cost.value) for cost in result.costs]
            seconds[place] = statistics.median(costs) if int(result.error_no) == 0 else math.inf
        verified[trial] = seconds[place]
    return verified


def best_of_log(path, checkpoints):
    """{trial: place among the records} of the best program up to each checkpoint, and the log's measured inputs."""
    from tvm import auto_scheduler
    inputs, results = auto_scheduler.RecordReader(path).read_lines()
    costs = [cost_of(result) for result in results]
    best = {trial: min(range(min(trial, len(costs))), key=costs.__getitem__) for trial in checkpoints}
    return {trial: place for trial, place in best.items() if math.isfinite(costs[place])}, inputs
