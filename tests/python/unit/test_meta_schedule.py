"""The cost model for TVM's meta_schedule, with real TVM and the fake library: a score is the length of a program's text."""
import ctypes
import json
import os
import sys

import numpy as np

from support import FolderTest, fake_library, needs_tvm


@needs_tvm
class MetaScheduleTest(FolderTest):
    def setUp(self):
        from test_auto_scheduler import matmul
        from tvm import te
        import foretime
        from foretime.meta_schedule import ForetimeCostModel

        super().setUp()
        self.bundle = self.folder / "bundle"
        self.bundle.write_bytes(b"2")
        self.program = te.create_prim_func(matmul(64, 48, 32))
        self.model = ForetimeCostModel(self.bundle, library=foretime.Library(ctypes.CDLL(fake_library())))

    def candidates(self):
        from tvm import meta_schedule, tir

        made = []
        for splits in range(4):
            schedule = tir.Schedule(self.program)
            loop = schedule.get_loops(schedule.get_block("product"))[0]
            for _ in range(splits):
                loop = schedule.split(loop, [None, 2])[0]
            made.append(meta_schedule.MeasureCandidate(schedule, []))
        return made

    def context(self):
        import tvm
        from tvm import meta_schedule

        return meta_schedule.TuneContext(
            mod=tvm.IRModule({"main": self.program}), target=tvm.target.Target("llvm -num-cores 1")
        )

    def test_short_programs_get_high_speeds(self):
        from foretime.meta_schedule import program_text

        candidates = self.candidates()
        speeds = self.model.predict(self.context(), candidates)
        self.assertEqual(speeds.dtype, np.float64)
        self.assertTrue((speeds > 0).all())
        lengths = [len(program_text(candidate.sch.mod)) for candidate in candidates]
        self.assertEqual(np.argsort(-speeds).tolist(), np.argsort(lengths).tolist())

    def test_what_cannot_be_scored_is_never_drawn(self):
        os.environ["FAKE_UNSCORED"] = "1"
        self.addCleanup(os.environ.pop, "FAKE_UNSCORED")
        self.assertEqual(self.model.predict(self.context(), self.candidates()).tolist(), [0.0] * 4)

    def results(self, seconds):
        """Measurements; None is a failure."""
        from tvm.meta_schedule.runner import RunnerResult

        return [
            RunnerResult(None, "timeout") if value is None else RunnerResult([value, value], None) for value in seconds
        ]

    def test_collects_what_was_measured(self):
        candidates = self.candidates()
        self.model.update(self.context(), candidates, self.results([0.5, None, 0.25, 0.125]))
        from foretime.meta_schedule import program_text, workload_key

        records = [json.loads(line) for line in self.model.records]
        self.assertEqual([record["runtime"] for record in records], [0.5, 0.25, 0.125])
        self.assertEqual({record["workload"] for record in records}, {workload_key(self.context())})
        self.assertEqual(len({record["id"] for record in records}), 3)
        self.assertEqual(records[1]["program"], program_text(candidates[2].sch.mod))
        os.environ["FAKE_UNSCORED"] = "1"  # a program that the library cannot read is nothing to learn from
        self.addCleanup(os.environ.pop, "FAKE_UNSCORED")
        self.model.update(self.context(), candidates, self.results([0.5] * 4))
        self.assertEqual(len(self.model.records), 3)

    def test_fine_tunes_when_that_is_due(self):
        import foretime
        from foretime.meta_schedule import ForetimeCostModel

        script = "import shutil, sys; assert len(open(sys.argv[2]).readlines()) == 8; shutil.copyfile(sys.argv[1], sys.argv[3])"
        model = ForetimeCostModel(
            self.bundle,
            finetune_every=5,
            finetune_command=(sys.executable, "-c", script, "{model}", "{records}", "{output}"),
            finetune_folder=self.folder / "rounds",
            library=foretime.Library(ctypes.CDLL(fake_library())),
        )
        model.update(self.context(), self.candidates(), self.results([0.5] * 4))
        self.assertFalse((self.folder / "rounds").exists())
        with self.assertLogs("foretime", "INFO") as logged:
            model.update(self.context(), self.candidates(), self.results([0.25] * 4))
        self.assertIn("goes on with", logged.output[-1])
        os.remove(self.bundle)
        model.save(self.bundle)
        self.assertEqual(len(model.predict(self.context(), self.candidates())), 4)

    def test_saves_and_loads(self):
        copy = self.folder / "copy"
        self.model.save(copy)
        self.model.load(copy)
        os.remove(copy)
        self.model.update(self.context(), [], [])
        self.assertEqual(len(self.model.predict(self.context(), self.candidates())), 4)
