"""tools/tuner/measure/programs.py with a stand-in for TVM: what is built and measured when, where, and what becomes of builds that fail."""
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

SOURCE = pathlib.Path(os.environ.get("FORETIME_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path.insert(0, str(SOURCE / "tools" / "tuner" / "measure"))

import programs  # noqa: E402

CORE = max(os.sched_getaffinity(0))


def busy(seconds):
    """Uses a processor so long, whoever else wants it."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


class Program:
    """A measure input, its task and its state: what its compiler does, and for how long."""

    layout_rewrite_option, target = None, "here"

    def __init__(self, name, folder, build=0.05, how="builds", starts_after=0):
        self.name, self.folder, self.build, self.how, self.starts_after = name, folder, build, how, starts_after
        self.task = self.compute_dag = self.state = self

    def apply_steps_from_state(self, state, layout_rewrite):
        if self.how == "no schedule":
            raise ValueError("first\nno such step")
        return state, []

    def note(self, what):
        """One short line is written whole, however many processes write."""
        with open(self.folder / "events", "a", encoding="ascii") as file:
            file.write(json.dumps([what, self.name, time.monotonic(), sorted(os.sched_getaffinity(0))]) + "\n")


class Function:
    entry_name = "main"

    def __init__(self, program):
        self.program = program

    def time_evaluator(self, name, device, number, repeat):
        def run():
            self.program.note("measure")
            if self.program.how == "crashes":
                os.abort()
            busy(0.04)
            self.program.note("measured")
            return types.SimpleNamespace(mean=0.001)

        return run


def build(program, tensors, target):
    program.note("build")
    busy(program.build if program.how != "is late" else 100000)
    if program.how == "no code":
        raise RuntimeError("LLVM: no registers left")
    if program.how == "ends":
        os._exit(3)
    program.note("built")
    return Function(program)


def spans(events, begin, end):
    """(from, to) of what each program does between two events."""
    found, open_since = [], {}
    for what, name, when, _ in events:
        if what == begin:
            open_since[name] = when
        elif what == end and name in open_since:
            found.append((open_since.pop(name), when))
    return found


def overlap(some, others):
    return sum(1 for a in some for b in others if a is not b and a[0] < b[1] and b[0] < a[1])


class MeasureProgramsTest(unittest.TestCase):
    def setUp(self):
        tvm = types.ModuleType("tvm")
        tvm.build, tvm.cpu = build, lambda number: number
        self.enterContext(unittest.mock.patch.dict(sys.modules, tvm=tvm))
        for name, value in {"BUILD_TIMEOUT": 100.0, "TRIES": 1, "REPEAT_SECONDS": 0.001, "MOST_SECONDS": 100.0}.items():
            self.enterContext(unittest.mock.patch.object(programs, name, value))
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def measure(self, inputs, builders, urgent=False):
        found = {
            measured.name: (built, result)
            for measured, built, result, _ in programs.measured_programs(inputs, CORE, False, builders, urgent)
        }
        lines = (self.folder / "events").read_text().splitlines() if (self.folder / "events").exists() else []
        return found, sorted(map(json.loads, lines), key=lambda event: event[2])

    def program(self, number, **more):
        return Program(f"p{number}", self.folder, **more)

    def check_all(self, found, events, count):
        self.assertEqual(set(found), {f"p{n}" for n in range(count)})
        for built, result in found.values():
            self.assertGreater(built["seconds"], 0)
            self.assertGreaterEqual(len(result["costs"]), programs.FEWEST)
        self.assertEqual(sum(event[0] == "built" for event in events), count)
        measures = spans(events, "measure", "measured")
        self.assertEqual(overlap(measures, measures), 0)
        for what, _, _, cores in events:
            if what == "measure":
                self.assertEqual(cores, [CORE])
        return measures

    def test_nothing_is_built_while_something_is_measured(self):
        found, events = self.measure([self.program(n) for n in range(13)], builders=0)
        measures = self.check_all(found, events, 13)
        self.assertEqual(overlap(measures, spans(events, "build", "built")), 0)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core")
    def test_builders_go_on_on_the_other_cores(self):
        for builders in (1, 2):
            with self.subTest(builders=builders):
                (self.folder / "events").unlink(missing_ok=True)
                # Thirteen of them are built for seconds, however long the first to be measured needs until it is.
                found, events = self.measure([self.program(n, build=0.25) for n in range(13)], builders)
                measures, builds = self.check_all(found, events, 13), spans(events, "build", "built")
                self.assertGreater(overlap(measures, builds), 0)
                at_once = max(sum(1 for other in builds if other[0] <= one[0] < other[1]) for one in builds)
                self.assertEqual(at_once, builders)
                for what, _, _, cores in events:
                    if what == "build":
                        self.assertNotIn(CORE, cores)

    @unittest.skipUnless(programs.may_be_urgent(), "real-time priority is not allowed here")
    def test_urgent_programs_wait_for_no_builder(self):
        """Four times as many builders as cores, on all cores: who is measured takes its core from them at once."""
        builders = 4 * len(os.sched_getaffinity(0))
        found, events = self.measure([self.program(n, build=0.25) for n in range(28)], builders, urgent=True)
        measures, builds = self.check_all(found, events, 28), spans(events, "build", "built")
        during = [
            one
            for one in measures
            if sum(1 for other in builds if other[0] < one[0] and one[1] < other[1]) >= builders / 4
        ]
        self.assertGreater(len(during), 3)
        self.assertLess(statistics.median(end - begin for begin, end in during), 0.04 * 1.25)
        self.assertLess(statistics.median(result["others"] for _, result in found.values()), programs.DISTURBED)

    @unittest.skipUnless(programs.may_be_urgent(), "real-time priority is not allowed here")
    def test_what_is_urgent_for_a_while_is_as_before_afterwards(self):
        cores = os.sched_getaffinity(0)
        with self.assertRaises(ValueError), programs.on_core(CORE, urgent=True):
            self.assertEqual((os.sched_getscheduler(0), os.sched_getaffinity(0)), (os.SCHED_FIFO, {CORE}))
            raise ValueError
        self.assertEqual((os.sched_getscheduler(0), os.sched_getaffinity(0)), (os.SCHED_OTHER, cores))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core")
    def test_failures_keep_their_kind_and_no_turn(self):
        """With a single builder, whoever fails must give its turn back, or nobody after it is built."""
        self.enterContext(unittest.mock.patch.object(programs, "BUILD_TIMEOUT", 2.0))
        kinds = ["is late", "no code", "ends", "no schedule", "crashes", "is late", "builds"]
        for builders in (0, 1):
            with self.subTest(builders=builders):
                found, _ = self.measure([self.program(n, how=how) for n, how in enumerate(kinds)], builders)
                errors = [found[f"p{n}"][1].get("error") for n in range(len(kinds))]
                self.assertEqual(
                    errors,
                    [
                        programs.BUILD_LATE,
                        programs.COMPILE,
                        programs.COMPILE,
                        programs.INSTANTIATION,
                        programs.RUNTIME,
                        programs.BUILD_LATE,
                        None,
                    ],
                )
                self.assertEqual(found["p1"][1]["text"], "LLVM: no registers left")
                self.assertIn("exit code 3", found["p2"][1]["text"])
                self.assertEqual(found["p3"][1]["text"], "no such step")
                self.assertIn("signal 6", found["p4"][1]["text"])

    def test_a_turn_that_went_down_with_a_build_is_given_on(self):
        """Where the first program comes to no turn before others have ended with theirs."""
        serve = programs.serve

        def serve_late(program, *rest):
            time.sleep(program.starts_after)
            serve(program, *rest)

        others = [self.program(n, how="ends") for n in range(1, len(os.sched_getaffinity(0)) + 1)]
        with unittest.mock.patch.object(programs, "serve", serve_late):
            found, _ = self.measure([self.program(0, starts_after=1), *others], builders=0)
        self.assertNotIn("error", found["p0"][1])
        self.assertEqual({found[program.name][1]["error"] for program in others}, {programs.COMPILE})

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core")
    def test_a_long_build_holds_up_nobody(self):
        order = [
            measured.name
            for measured, *_ in programs.measured_programs(
                [self.program(0, build=0.6), *(self.program(n, build=0.02) for n in range(1, 6))], CORE, False, 2
            )
        ]
        self.assertEqual(len(order), 6)
        self.assertNotEqual(order[0], "p0")

    def test_an_interrupted_measuring_leaves_no_process(self):
        running = programs.measured_programs([self.program(n) for n in range(6)], CORE, False, 0)
        next(running)
        running.close()
        with self.assertRaises(ChildProcessError):  # no child is left, not even one to wait for
            os.waitpid(-1, os.WNOHANG)


if __name__ == "__main__":
    unittest.main()
