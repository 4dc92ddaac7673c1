"""The cost model for MetaSchedule, and what reads its programs and databases, with real TVM of any release and the fake library: a score
is the length of a program's text."""
import ctypes
import json
import os
import sys

import numpy as np

from support import FolderTest, fake_library, needs_meta_schedule, real_bundle


@needs_meta_schedule
class MetaScheduleTest(FolderTest):
    def setUp(self):
        import foretime
        from foretime.meta_schedule import NAMES, ForetimeCostModel
        from test_auto_scheduler import matmul
        from tvm import te
        from tvm.target import Target

        super().setUp()
        self.bundle = self.folder / "bundle"
        self.bundle.write_bytes(b"2")
        self.names = NAMES
        self.program = te.create_prim_func(matmul(64, 48, 32))
        self.target = Target({"kind": "llvm", "mcpu": "core-avx2", "num-cores": 1})
        self.model = ForetimeCostModel(self.bundle, library=foretime.Library(ctypes.CDLL(fake_library())))

    def candidates(self):
        search = sys.modules[self.names.py_cost_model.__module__.rpartition(".cost_model")[0]]
        made = []
        for splits in range(4):
            schedule = self.names.schedule(self.program)
            find = getattr(schedule, "get_sblock", None) or schedule.get_block
            loop = schedule.get_loops(find("product"))[0]
            for _ in range(splits):
                loop = schedule.split(loop, [None, 2])[0]
            made.append(search.MeasureCandidate(schedule, []))
        return made

    def context(self):
        import tvm

        search = sys.modules[self.names.py_cost_model.__module__.rpartition(".cost_model")[0]]
        return search.TuneContext(mod=tvm.IRModule({"main": self.program}), target=self.target)

    def results(self, seconds):
        """Measurements; None is a failure."""
        runner = sys.modules[self.names.py_cost_model.__module__.rpartition(".cost_model")[0]].runner
        return [
            runner.RunnerResult(None, "timeout") if value is None else runner.RunnerResult([value, value], None)
            for value in seconds
        ]

    def test_short_programs_get_high_speeds(self):
        from foretime.meta_schedule_programs import module_text

        candidates = self.candidates()
        speeds = self.model.predict(self.context(), candidates)
        self.assertEqual(speeds.dtype, np.float64)
        self.assertTrue((speeds > 0).all())
        texts = [module_text(self.names, candidate.sch.mod, self.target) for candidate in candidates]
        self.assertEqual(np.argsort(-speeds).tolist(), np.argsort([len(text) for text in texts]).tolist())
        content = json.loads(texts[0])
        self.assertEqual(content["attrs"]["target"], "llvm -mcpu=core-avx2 -num-cores=1")
        kinds = [node["type_key"] for node in content["nodes"]]
        self.assertEqual([kinds.count(kind) for kind in ("tir.For", "tir.BufferStore", "tir.IfThenElse")], [3, 2, 1])
        unknown = {kind for kind in kinds if not kind.startswith("tir.")} - {"", "Array", "Map", "IntImm", "FloatImm"}
        self.assertEqual(unknown, set())

    def test_a_real_library_reads_the_programs(self):
        import foretime
        from foretime.meta_schedule_programs import module_text

        texts = [module_text(self.names, candidate.sch.mod, self.target) for candidate in self.candidates()]
        scores = foretime.open(real_bundle()).score_tir(texts)
        self.assertTrue(np.isfinite(scores).all())
        self.assertEqual(len(set(scores)), len(scores))

    def test_collects_what_was_measured(self):
        from foretime.meta_schedule_programs import module_text, workload_key

        candidates = self.candidates()
        self.model.update(self.context(), candidates, self.results([0.5, None, 0.25, 0.125]))
        records = [json.loads(line) for line in self.model.records]
        self.assertEqual([record.get("runtime") for record in records], [0.5, None, 0.25, 0.125])
        self.assertEqual([record.get("failed") for record in records], [None, True, None, None])
        self.assertEqual({record["workload"] for record in records}, {workload_key(self.names, self.context().mod)})
        self.assertEqual(len({record["id"] for record in records}), 4)
        self.assertEqual(records[1]["program"], module_text(self.names, candidates[1].sch.mod, self.target))
        os.environ["FAKE_UNSCORED"] = "1"  # a program that the library cannot read is nothing to learn from
        self.addCleanup(os.environ.pop, "FAKE_UNSCORED")
        self.model.update(self.context(), candidates, self.results([0.5] * 4))
        self.assertEqual(len(self.model.records), 4)

    def test_saves_and_loads(self):
        copy = self.folder / "copy"
        self.model.save(copy)
        self.model.load(copy)
        os.remove(copy)
        self.model.update(self.context(), [], [])
        self.assertEqual(len(self.model.predict(self.context(), self.candidates())), 4)

    def test_databases_are_read(self):
        import tvm
        from foretime.meta_schedule_programs import module_text, read_database

        search = sys.modules[self.names.py_cost_model.__module__.rpartition(".cost_model")[0]]
        database = search.database.JSONDatabase(work_dir=str(self.folder))
        workload = database.commit_workload(tvm.IRModule({"main": self.program}))
        candidates = self.candidates()
        for candidate, seconds in zip(candidates, ([0.5, 0.25], [1e10], [0.125], None)):
            database.commit_tuning_record(
                search.database.TuningRecord(candidate.sch.trace, workload, seconds, self.target, [])
            )
        programs = list(read_database(self.names, self.folder))
        self.assertEqual([program.seconds for program in programs[:3]], [0.375, None, 0.125])
        self.assertEqual([program.failure for program in programs], ["", "", "", "it was not measured"])
        for program, candidate in zip(programs[:3], candidates):
            self.assertEqual(program.text, module_text(self.names, candidate.sch.mod, self.target))
        self.assertEqual(self.model.update_from_database(self.folder), 3)
        self.assertEqual(len(self.model.records), 3)
