"""What --profile writes, and that trainer.deterministic repeats itself."""
import json
import os
from unittest import mock

from program import ProgramTest


class ProfileTest(ProgramTest):
    def profile(self, ranks, **changes):
        return self.run_foretime(*self.training(**changes), "--profile", ranks=ranks)

    def test_a_trace_of_all_ranks_and_a_summary(self):
        done = self.profile(
            2, trainer__eval_every=3, trainer__log_every=2, checkpoint__every_steps=2, comm__bucket_bytes=1000
        )
        run = self.folder / "run"
        trace = json.loads((run / "trace.json").read_text())
        self.assertEqual(trace["otherData"]["dropped_spans"], [0, 0])
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        for rank in (0, 1):
            names = [span["name"] for span in spans if span["pid"] == rank]
            for name, least in (
                ("loader", 6),
                ("plan", 6),
                ("forward", 6),
                ("backward", 6),
                ("reduce", 6),
                ("reduce wait", 6),
                ("reduce bucket", 12),
                ("step", 6),
                ("evaluation", 3),
                ("checkpoint", 3),
                ("read data", 1),
            ):
                self.assertGreaterEqual(names.count(name), least, f"{name} on rank {rank}")
            self.assertEqual(names.count("forward"), 6)
        for span in spans:
            self.assertGreaterEqual(span["ts"], -1e5)
            self.assertLess(span["ts"] + span["dur"], 1200e6)
        # Plans are made beside the training thread; buckets travel on no thread.
        self.assertTrue(any(span["tid"] not in (0, 1000) for span in spans if span["name"] == "plan"))
        self.assertTrue(all(span["tid"] >= 1000 for span in spans if span["name"] == "reduce bucket"))
        # A reduction on one rank overlaps that on the other: they wait for each other.
        ends = {
            rank: [s["ts"] + s["dur"] for s in spans if s["name"] == "reduce wait" and s["pid"] == rank]
            for rank in (0, 1)
        }
        for a, b in zip(ends[0], ends[1]):
            self.assertLess(abs(a - b), 5e6)
        names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
        self.assertEqual(names, {"rank 0", "rank 1"})
        table = (run / "profile.txt").read_text()
        for line in table.splitlines():  # on the terminal further columns continue below
            self.assertIn(line[:50].rstrip(), done.stdout)
        shares = [float(line.split("%")[0].split()[-1]) for line in table.splitlines()[2:] if " training " in line]
        self.assertAlmostEqual(sum(shares), 100, delta=2)
        self.assertRegex(table, r"reduce bucket +wire")
        self.assertRegex(table, r"plan +beside")
        lines = self.lines_of()
        for line in (line for line in lines if line["kind"] == "train"):
            self.assertGreaterEqual(line["comm_wait_ms"], line["comm_exposed_ms"])
            self.assertIn(line["straggler_rank"], (0, 1))
        self.assertRegex(done.stderr, r"comm [0-9.e+-]+ ms \([0-9.]+ %\)")

    def test_a_profile_changes_nothing_else(self):
        self.profile(1, run__directory=self.folder / "with")
        self.train(run__directory=self.folder / "without")
        self.assertEqual(self.checkpoint(6, "with"), self.checkpoint(6, "without"))
        self.assertFalse((self.folder / "without" / "trace.json").exists())
        spans = json.loads((self.folder / "with" / "trace.json").read_text())["traceEvents"]
        self.assertFalse([span for span in spans if span["name"] == "reduce bucket"], "alone, nothing travels")

    def test_deterministic_runs_are_the_same_bytes(self):
        for ranks, precision in ((1, "bfloat16"), (2, "float32")):
            for name in ("a", "b"):
                self.train(
                    ranks=ranks,
                    trainer__deterministic="true",
                    trainer__precision=precision,
                    model__readout="[mean, max]",
                    comm__gradient_dtype="bfloat16",
                    model__dropout=0.2,
                    run__directory=self.folder / f"{name}{ranks}",
                )
            self.assertEqual(self.checkpoint(6, f"a{ranks}"), self.checkpoint(6, f"b{ranks}"))

    def test_an_environment_against_it_is_refused(self):
        with mock.patch.dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":0:0"):
            done = self.train(trainer__deterministic="true", code=2)
        self.assertIn("CUBLAS_WORKSPACE_CONFIG is ':0:0', expected :4096:8 or :16:8", done.stderr)

    def test_a_run_keeps_its_gradient_dtype(self):
        self.train(trainer__steps=2)
        done = self.train(trainer__steps=4, comm__gradient_dtype="bfloat16", code=2)
        self.assertIn("gradient_dtype: float32 -> ", done.stderr)
