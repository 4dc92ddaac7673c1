"""The cost model for TVM's auto_scheduler, with real TVM and the fake library: a score is the length of a record."""
import json
import os
import subprocess
import sys

import numpy as np

from support import HERE, ROOT, FolderTest, fake_library, needs_tvm


def matmul(rows, columns, depth):
    """The tensors of a product."""
    from tvm import te

    make = te.placeholder  # TVM's word
    left, right = make((rows, depth), name="left"), make((depth, columns), name="right")
    k = te.reduce_axis((0, depth), name="k")
    return [
        left,
        right,
        te.compute((rows, columns), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="product"),
    ]


def task_of(tensors):
    import tvm
    from tvm import auto_scheduler
    from tvm.auto_scheduler.workload_registry import register_workload_tensors

    dag = auto_scheduler.ComputeDAG(tensors)
    key = register_workload_tensors(dag.workload_key(), tensors)
    return auto_scheduler.SearchTask(compute_dag=dag, workload_key=key, target=tvm.target.Target("llvm"))


def states_of(task, count=20):
    from tvm import auto_scheduler

    policy = auto_scheduler.SketchPolicy(
        task, params={"sample_init_min_population": count, "evolutionary_search_population": count}, seed=1, verbose=0
    )
    return policy.sample_initial_population()


@needs_tvm
class AutoSchedulerTest(FolderTest):
    @classmethod
    def setUpClass(cls):
        import ctypes
        import foretime

        cls.library = foretime.Library(ctypes.CDLL(fake_library()))
        cls.task = task_of(matmul(64, 48, 32))
        cls.states = states_of(cls.task)

    def setUp(self):
        super().setUp()
        self.bundle = self.folder / "first"
        self.bundle.write_bytes(b"2")

    def model(self, **options):
        from foretime.auto_scheduler import ForetimeModel

        return ForetimeModel(self.bundle, library=self.library, **options)

    def measured(self, states, seconds=1e-3):
        from tvm import auto_scheduler
        from tvm.auto_scheduler.measure import MeasureErrorNo

        inputs = [auto_scheduler.MeasureInput(self.task, state) for state in states]
        return inputs, [auto_scheduler.MeasureResult([seconds], MeasureErrorNo.NO_ERROR, "", 0.1, 0.0) for _ in inputs]

    def test_record_lines_are_those_of_tvm_without_results(self):
        from tvm import auto_scheduler
        from foretime.auto_scheduler import record_lines

        inputs, results = self.measured(self.states)
        for line, measured, result in zip(record_lines(self.task, self.states), inputs, results):
            record = json.loads(auto_scheduler.measure_record.dump_record_to_string(measured, result))
            self.assertEqual(json.loads(line), {"i": record["i"]})

    def test_short_records_get_high_speeds(self):
        from foretime.auto_scheduler import record_lines

        speeds = self.model().predict(self.task, self.states)
        self.assertEqual(speeds.dtype, np.float32)
        self.assertTrue((speeds > 0).all())
        lengths = [len(line) for line in record_lines(self.task, self.states)]
        self.assertEqual(np.argsort(-speeds, kind="stable").tolist(), np.argsort(lengths, kind="stable").tolist())

    def test_stages_have_no_scores_of_their_own(self):
        model = self.model()
        scores = model.predict_stages(self.task, self.states)
        count = len(self.states)
        np.testing.assert_array_equal(scores[:count], model.predict(self.task, self.states))
        np.testing.assert_array_equal(scores[count:], np.zeros(count))

    def test_a_workload_that_cannot_be_scored_ends_the_search(self):
        import foretime

        model = self.model()
        os.environ["FAKE_UNSCORED"] = "1"
        self.addCleanup(os.environ.pop, "FAKE_UNSCORED")
        with self.assertLogs("foretime", "WARNING"):
            self.assertEqual(model.predict(self.task, self.states[:10]).tolist(), [1.0] * 10)  # unknown: all the same
        with self.assertRaisesRegex(foretime.ForetimeError, "none of .* schedules .*: text 0: no JSON"):
            for _ in range(10):
                model.predict(self.task, self.states)

    def test_searches_and_collects_records(self):
        from tvm import auto_scheduler

        model = self.model()
        policy = auto_scheduler.SketchPolicy(
            self.task,
            model,
            {"evolutionary_search_population": 32, "sample_init_min_population": 16},
            seed=1,
            verbose=0,
        )
        log = self.folder / "log.json"
        options = auto_scheduler.TuningOptions(
            num_measure_trials=8,
            num_measures_per_round=4,
            verbose=0,
            measure_callbacks=[auto_scheduler.RecordToFile(str(log))],
            runner=auto_scheduler.LocalRunner(number=1, repeat=1),
        )
        self.task.tune(options, search_policy=policy)
        lines = log.read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(lines), 8)
        self.assertEqual(model.records, lines[:4])  # TVM does not tell of the last round
        again = self.model()
        again.update_from_file(str(log))
        self.assertEqual([json.loads(line)["i"] for line in again.records], [json.loads(line)["i"] for line in lines])

    def test_goes_on_with_what_was_fine_tuned(self):
        script = "import sys; assert len(open(sys.argv[2]).readlines()) == 4; open(sys.argv[4], 'w').write('2r')"
        model = self.model(
            finetune_every=4,
            finetune_folder=self.folder,
            finetune_command=(sys.executable, "-c", script, "{model}", "{records}", "{dags}", "{output}"),
        )
        model.update(*self.measured(self.states[:3]))
        copy = self.folder / "copy"
        model.save(copy)
        self.assertEqual(copy.read_bytes(), b"2")
        model.update(*self.measured(self.states[3:4]))
        model.save(copy)
        self.assertEqual(copy.read_bytes(), b"2r")
        self.assertTrue((model.predict(self.task, self.states) > 0).all())
        dags = (self.folder / "dags.jsonl").read_text(encoding="utf-8").splitlines()
        self.assertEqual([json.loads(line)["workload_key"] for line in dags], [self.task.workload_key])
        model.load(self.bundle)
        self.assertEqual(model.records, [])


@needs_tvm
class ComputeDagTest(FolderTest):
    def test_dag_of_a_product(self):
        from foretime.compute_dag import compute_dag

        task = task_of(matmul(64, 48, 32))
        table = compute_dag(task.compute_dag, task.workload_key)
        self.assertEqual(table["flop_ct"], 2 * 64 * 48 * 32)
        self.assertEqual([stage["name"] for stage in table["stages"]], ["left", "right", "product"])
        product = table["stages"][2]
        self.assertEqual(
            (product["shape"], product["axes"], product["reduce_axes"], product["combiner"], product["is_output"]),
            ([64, 48], [["i", 64], ["j", 48]], [["k", 32]], "sum", True),
        )
        self.assertEqual(product["body"], "(left[i, k]*right[k, j])")
        self.assertEqual(
            product["reads"],
            [{"op": 0, "name": "left", "indices": ["i", "k"]}, {"op": 1, "name": "right", "indices": ["k", "j"]}],
        )

    def test_the_script_writes_the_same(self):
        from foretime.compute_dag import compute_dag

        task = task_of(matmul(8, 16, 4))
        script, out = self.folder / "tasks.py", self.folder / "out.jsonl"
        script.write_text(
            f"import sys; sys.path.insert(0, {str(HERE)!r})\nfrom test_auto_scheduler import matmul, task_of\n"
            "def tasks():\n    return [task_of(matmul(8, 16, 4))] * 2\n"
        )
        subprocess.run(
            [sys.executable, str(ROOT / "tools" / "data" / "export_dags.py"), "-o", str(out), "--script", str(script)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        tables = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(tables, [json.loads(json.dumps(compute_dag(task.compute_dag, task.workload_key)))])
