"""foretime.task_files: pickles in the form of TVM's tasks, made here by hand, become the compute DAGs that TVM made of the same tasks."""
import contextlib
import gzip
import io
import json
import os
import pathlib
import pickle
import sys
import tempfile
import types
import unittest

from support import ROOT

from foretime import task_files

SAMPLES = ROOT / "samples" / "ansor"


class Json:
    """Writes a graph as save_json does: nodes with a type, and attributes that are values or places of other nodes, as text."""

    def __init__(self):
        self.nodes = [{"type_key": ""}]

    def node(self, kind, **attributes):
        self.nodes.append({"type_key": kind, "attrs": {name: str(value) for name, value in sorted(attributes.items())}})
        return len(self.nodes) - 1

    def array(self, *items):
        self.nodes.append({"type_key": "Array", "data": list(items)} if items else {"type_key": "Array"})
        return len(self.nodes) - 1

    def text(self, text, kind="runtime.String"):
        self.nodes.append({"type_key": kind, "repr_str": text})
        return len(self.nodes) - 1

    def int(self, value, dtype="int32"):
        return self.node("IntImm", dtype=dtype, span=0, value=value)

    def float(self, value, dtype="float32"):
        return self.node("FloatImm", dtype=dtype, span=0, value=value)

    def axis(self, name, extent, reduced=False):
        variable = self.node("tir.Var", dtype="int32", name=self.text(name), span=0, type_annotation=0)
        domain = self.node("Range", extent=self.int(extent), min=self.int(0), span=0)
        return self.node(
            "tir.IterVar", dom=domain, iter_type=2 if reduced else 0, span=0, thread_tag=self.text(""), var=variable
        )

    def variable(self, axis):
        return int(self.nodes[axis]["attrs"]["var"])

    def two(self, kind, a, b, dtype="float32"):
        return self.node("tir." + kind, a=a, b=b, dtype=dtype, span=0)

    def call(self, op, *arguments, dtype="float32"):
        return self.node("tir.Call", args=self.array(*arguments), dtype=dtype, op=self.text(op, "Op"), span=0)

    def source(self, name, *shape, dtype="float32"):
        op = self.node(
            "Place" "holderOp", attrs=0, dtype=dtype, name=name, shape=self.array(*map(self.int, shape)), tag=""
        )
        return self.tensor(op, dtype)

    def tensor(self, op, dtype="float32", index=0):
        return self.node("Tensor", dtype=dtype, op=op, shape=self.array(), value_index=index)

    def load(self, tensor, *indices):
        return self.node(
            "tir.ProducerLoad",
            dtype=self.nodes[tensor]["attrs"]["dtype"],
            indices=self.array(*indices),
            producer=tensor,
            span=0,
        )

    def reduce(self, combiners, sources, axes):
        """One node a result, as TVM has them."""
        lhs = [
            self.node("tir.Var", dtype="float32", name=self.text(f"x{i}"), span=0, type_annotation=0)
            for i in range(len(sources))
        ]
        rhs = [
            self.node("tir.Var", dtype="float32", name=self.text(f"y{i}"), span=0, type_annotation=0)
            for i in range(len(sources))
        ]
        results = [self.two(kind, x, y) for kind, x, y in zip(combiners, lhs, rhs)]
        combiner = self.node(
            "tir.CommReducer",
            identity_element=self.array(*[self.float(0) for _ in sources]),
            lhs=self.array(*lhs),
            result=self.array(*results),
            rhs=self.array(*rhs),
            span=0,
        )
        source, axis = self.array(*sources), self.array(*axes)
        return [
            self.node(
                "tir.Reduce",
                axis=axis,
                combiner=combiner,
                condition=self.int(1, "bool"),
                dtype="float32",
                init=self.array(),
                source=source,
                span=0,
                value_index=index,
            )
            for index in range(len(sources))
        ]

    def compute(self, name, axes, body, reduced=(), tag=""):
        body = body if isinstance(body, list) else [body]
        op = self.node(
            "ComputeOp",
            attrs=0,
            axis=self.array(*axes),
            body=self.array(*body),
            name=name,
            reduce_axis=self.array(*reduced),
            tag=tag,
        )
        return [self.tensor(op, "float32", index) for index in range(len(body))]

    def dump(self, *tensors):
        root = self.array(*tensors)
        return json.dumps({"root": root, "nodes": self.nodes, "b64ndarrays": [], "attrs": {"tvm_version": "0.8.dev0"}})


def dense_bias_relu(m, n, k):
    j = Json()
    a, b = j.source("A", m, k), j.source("B", n, k)
    axes, reduced = [j.axis("i", m), j.axis("j", n)], [j.axis("k", k, reduced=True)]
    x, y, z = map(j.variable, [*axes, *reduced])
    (product,) = j.compute(
        "T_matmul_NT",
        axes,
        j.reduce(["Add"], [j.two("Mul", j.load(a, x, z), j.load(b, y, z))], reduced),
        reduced,
        "dense",
    )
    bias, axes = j.source("bias", n), [j.axis("i", m), j.axis("j", n)]
    x, y = map(j.variable, axes)
    (added,) = j.compute("bias_add", axes, j.two("Add", j.load(product, x, y), j.load(bias, y)))
    axes = [j.axis("i0", m), j.axis("i1", n)]
    x, y = map(j.variable, axes)
    (out,) = j.compute("compute", axes, j.two("Max", j.load(added, x, y), j.float(0)), tag="elemwise")
    return j.dump(a, b, bias, out)


def softmax(m, n):
    j = Json()
    a = j.source("A", m, n)

    def rows(name, of, combiner):
        axes, reduced = [j.axis("i0", m)], [j.axis("k", n, reduced=True)]
        return j.compute(
            name,
            axes,
            j.reduce([combiner], [j.load(of, j.variable(axes[0]), j.variable(reduced[0]))], reduced),
            reduced,
            "softmax_output",
        )[0]

    def elements(name, body):
        axes = [j.axis("i0", m), j.axis("i1", n)]
        return j.compute(name, axes, body(*map(j.variable, axes)), tag="softmax_output")[0]

    most = rows("T_softmax_maxelem", a, "Max")
    powers = elements("T_softmax_exp", lambda x, y: j.call("tir.exp", j.two("Sub", j.load(a, x, y), j.load(most, x))))
    total = rows("T_softmax_expsum", powers, "Add")
    out = elements("T_softmax_norm", lambda x, y: j.two("Div", j.load(powers, x, y), j.load(total, x)))
    return j.dump(a, out)


def max_pool(channels, height, window, stride):
    j = Json()
    a, padded = j.source("A", 1, channels, height, height), height + 2
    axes = [j.axis(f"ax{i}", extent) for i, extent in enumerate((1, channels, padded, padded))]
    n, c, y, x = map(j.variable, axes)
    inside = None
    for variable in (y, x):
        for kind, bound in (("GE", 1), ("LT", height + 1)):
            test = j.two(kind, variable, j.int(bound), "bool")
            inside = test if inside is None else j.two("And", inside, test, "bool")
    body = j.call(
        "tir.if_then_else",
        inside,
        j.load(a, n, c, j.two("Sub", y, j.int(1), "int32"), j.two("Sub", x, j.int(1), "int32")),
        j.float(-3.4028234663852886e38),
    )
    (pad,) = j.compute("pad_temp", axes, body, tag="elemwise")
    out = (padded - window) // stride + 1
    axes, reduced = [j.axis(f"ax{i}", extent) for i, extent in enumerate((1, channels, out, out))], [
        j.axis(f"rv{i}", window, True) for i in (0, 1)
    ]
    n, c, y, x = map(j.variable, axes)

    def place(variable, axis):
        scaled = variable if stride == 1 else j.two("Mul", variable, j.int(stride), "int32")
        return j.two("Add", scaled, j.variable(axis), "int32")

    (pooled,) = j.compute(
        "pool_max",
        axes,
        j.reduce(["Max"], [j.load(pad, n, c, place(y, reduced[0]), place(x, reduced[1]))], reduced),
        reduced,
        "pool_max",
    )
    return j.dump(a, pooled)


TASKS = {
    '["dense_bias_relu", 16, 768, 768]': dense_bias_relu(16, 768, 768),
    '["softmax", 16, 1000]': softmax(16, 1000),
    '["max_pool2d", 1, 64, 112, 112, 3, 2]': max_pool(64, 112, 3, 2),
}


class Pickles:
    """Modules with the names of TVM's, whose classes pickle as TVM's do."""

    def __enter__(self):
        self.before = {
            name: sys.modules.get(name)
            for name in (
                "tvm",
                "tvm.runtime",
                "tvm.runtime.object",
                "tvm.auto_scheduler",
                "tvm.auto_scheduler.search_task",
                "tvm.auto_scheduler.compute_dag",
                "tvm.target",
                "tvm.target.target",
            )
        }
        for name in self.before:
            sys.modules[name] = types.ModuleType(name)
        objects = sys.modules["tvm.runtime.object"]

        def _new_object(kind):
            return kind.__new__(kind)

        class Object:
            def __init__(self, state):
                self.content = state

            def __reduce__(self):
                return _new_object, (type(self),), self.content

            def __setstate__(self, state):
                raise AssertionError("an object of TVM is made")

        def put(kind, module):
            kind.__module__, kind.__qualname__ = module, kind.__name__
            setattr(sys.modules[module], kind.__name__, kind)
            return kind

        put(_new_object, "tvm.runtime.object")
        put(Object, "tvm.runtime.object")
        self.objects = objects
        for name, module in {
            "SearchTask": "tvm.auto_scheduler.search_task",
            "HardwareParams": "tvm.auto_scheduler.search_task",
            "ComputeDAG": "tvm.auto_scheduler.compute_dag",
            "Target": "tvm.target.target",
        }.items():
            setattr(self, name, put(type(name, (Object,), {}), module))
        return self

    def task(self, key, tensors, **more):
        target, hardware = self.Target({"handle": '{"root": 1}'}), self.HardwareParams({"handle": '{"root": 1}'})
        return self.SearchTask(
            {
                "compute_dag": self.ComputeDAG({"tensors": tensors}),
                "workload_key": key,
                "target": target,
                "target_host": None,
                "hardware_params": hardware,
                "layout_rewrite_option": 0,
                "task_input_names": [],
                "desc": "a task",
                **more,
            }
        )

    def __exit__(self, *_):
        for name, module in self.before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def sample_dags():
    with gzip.open(SAMPLES / "dags.jsonl.gz", "rt", encoding="utf-8") as file:
        return {dag["workload_key"]: dag for dag in map(json.loads, file)}


class TaskFilesTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, content, protocol=4, name="all_tasks.pkl"):
        path = self.folder / name
        path.write_bytes(pickle.dumps(content, protocol=protocol))
        return path

    def refusal(self, content):
        path = self.folder / "bad.pkl"
        path.write_bytes(content)
        with self.assertRaises(ValueError) as caught:
            task_files.read_task_file(path)
        self.assertIn("bad.pkl", str(caught.exception))
        return str(caught.exception)

    def test_dags_are_those_of_tvm(self):
        known, before = sample_dags(), sys.modules.get("tvm")
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            with Pickles() as pickles:
                path = self.write([pickles.task(key, tensors) for key, tensors in TASKS.items()], protocol)
            tasks = task_files.read_task_file(path)
            self.assertEqual([task.workload_key for task in tasks], list(TASKS))
            for task in tasks:
                expected = known[task.workload_key]["stages"]
                self.assertEqual(len(task.stages), len(expected))
                for found, stage in zip(task.stages, expected):
                    for name, value in found.items():
                        if name != "reads":
                            self.assertEqual(value, stage[name], f"{task.workload_key}: {name}")
                    self.assertEqual(
                        [(read["name"], read["indices"]) for read in found.get("reads", [])],
                        [(read["name"], read["indices"]) for read in stage.get("reads", [])],
                    )
        self.assertIs(sys.modules.get("tvm"), before)

    def test_several_results_and_all_kinds_of_expressions(self):
        j = Json()
        a, axes, reduced = j.source("A", 4, 8), [j.axis("i", 4)], [j.axis("k", 8, True)]
        i, k = j.variable(axes[0]), j.variable(reduced[0])
        element = j.load(a, i, k)
        first, second = j.compute(
            "sums", axes, j.reduce(["Add", "Add"], [element, j.two("Mul", element, element)], reduced), reduced
        )
        axes = [j.axis("i", 4)]
        i = j.variable(axes[0])
        wide = j.node("tir.Cast", dtype="float64", span=0, value=j.load(first, i))
        chosen = j.node(
            "tir.Select",
            condition=j.node("tir.Not", a=j.two("EQ", i, j.int(3), "bool"), dtype="bool", span=0),
            dtype="float64",
            false_value=j.float(1.5, "float64"),
            span=0,
            true_value=wide,
        )
        long = j.two("FloorMod", j.node("tir.Cast", dtype="int64", span=0, value=i), j.int(3, "int64"), "int64")
        body = j.call(
            "tir.fma",
            chosen,
            j.load(second, j.two("FloorDiv", i, j.int(2), "int32")),
            j.node("tir.Cast", dtype="float64", span=0, value=long),
        )
        (out,) = j.compute("out", axes, body)
        with Pickles() as pickles:
            path = self.write(([pickles.task('["norm"]', j.dump(a, out))], [7]))
        (task,) = task_files.read_task_file(path)
        self.assertEqual((task.weight, task.description), (7, "a task"))
        self.assertEqual([stage["name"] for stage in task.stages], ["A", "sums", "out"])
        sums, last = task.stages[1:]
        self.assertEqual(
            sums["combine"], {"lhs": ["x0", "x1"], "rhs": ["y0", "y1"], "result": ["(x0 + y0)", "(x1 + y1)"]}
        )
        self.assertEqual(
            (sums["combiner"], sums["body"], len(sums["dtypes"]), len(sums["reads"])),
            ("tuple", "A[i, k], (A[i, k]*A[i, k])", 2, 1),
        )
        self.assertEqual(
            last["body"],
            "tir.fma(select(!(i == 3), float64(sums.v0[i]), 1.5), sums.v1[floordiv(i, 2)], "
            "float64(floormod(int64(i), (int64)3)))",
        )
        self.assertEqual(
            last["reads"],
            [
                {"op": 1, "name": "sums", "indices": ["i"]},
                {"op": 1, "name": "sums", "indices": ["floordiv(i, 2)"], "output": 1},
            ],
        )

    def test_the_program_packs_records_of_such_a_file(self):
        with Pickles() as pickles:
            path = self.write([pickles.task(key, tensors) for key, tensors in TASKS.items()])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(task_files.main([str(path), str(path), "-o", str(self.folder / "dags.jsonl.gz")]), 0)
        self.assertIn("3 compute DAGs", said.getvalue())
        before = (self.folder / "dags.jsonl.gz").read_bytes()
        refused = io.StringIO()
        with contextlib.redirect_stderr(refused):
            self.assertEqual(task_files.main([str(path), "-o", str(self.folder / "dags.jsonl.gz")]), 2)
        self.assertIn("--force", refused.getvalue())
        self.assertEqual((self.folder / "dags.jsonl.gz").read_bytes(), before)
        program = os.environ.get("FORETIME")
        if not program:
            self.skipTest("FORETIME names no program")
        import subprocess

        done = subprocess.run(
            [
                program,
                "data",
                "pack-records",
                "-o",
                self.folder / "x.foretime",
                SAMPLES / "records.jsonl.gz",
                "--dags",
                self.folder / "dags.jsonl.gz",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 workloads", done.stdout)
        self.assertNotIn("cannot be replayed", done.stdout)

    def test_nothing_that_a_pickle_names_is_run(self):
        mark = self.folder / "mark"

        class Evil:
            def __init__(self, call, *arguments):
                self.call, self.arguments = call, arguments

            def __reduce__(self):
                return self.call, self.arguments

        for evil in (
            Evil(os.system, f"touch {mark}"),
            Evil(eval, f"open({str(mark)!r}, 'w')"),
            Evil(os.mkdir, str(mark)),
            Evil(getattr, "text", "upper"),
        ):
            for protocol in (0, 2, 4):
                message = self.refusal(pickle.dumps([evil], protocol=protocol))
                self.assertIn("names ", message)
                self.assertIn("nothing of it was run", message)
        # A name with dots, which a plain reader would follow from what it knows.
        self.assertIn(
            "nothing of it was run",
            self.refusal(b"\x80\x04\x8c\x12tvm.runtime.object\x8c\x17_new_object.__globals__\x93."),
        )
        self.assertFalse(mark.exists())

    def test_what_is_no_file_of_tasks_is_said(self):
        with Pickles() as pickles:
            whole = pickle.dumps([pickles.task(key, tensors) for key, tensors in TASKS.items()], protocol=4)
            cyclic = json.loads(TASKS['["softmax", 16, 1000]'])
            loads = [node for node in cyclic["nodes"] if node["type_key"] == "tir.ProducerLoad"]
            loads[0]["attrs"]["producer"] = loads[-1]["attrs"]["producer"]  # the first stage reads the last
            deep = Json()
            node = deep.int(1)
            for _ in range(40):
                node = deep.two("Add", node, node, "int32")  # 2^40 terms
            (out,) = deep.compute("deep", [deep.axis("i", 4)], node)
            bad = {
                key: pickle.dumps([pickles.task("[]", text)])
                for key, text in {
                    "cycle": json.dumps(cyclic),
                    "deep": deep.dump(out),
                    "no json": "{",
                    "no graph": "{}",
                    "no tensors": '{"root": 0, "nodes": [{"type_key": ""}]}',
                    "far": '{"root": 9, "nodes": []}',
                }.items()
            }
            other = pickle.dumps([pickles.Target({"handle": ""})])
        for cut in range(0, len(whole), 997):
            self.refusal(whole[:cut])
        self.assertIn("task 0: operations that read each other", self.refusal(bad["cycle"]))
        self.assertIn("characters", self.refusal(bad["deep"]))
        for name in ("no json", "no graph", "no tensors", "far"):
            self.assertIn("task 0", self.refusal(bad[name]))
        self.assertIn("expected a SearchTask", self.refusal(other))
        for content in (3, {"a": 1}, ([1], [1, 2]), [3], None):
            self.assertIn("expected a", self.refusal(pickle.dumps(content)))
        self.refusal(b"")
        self.refusal(b"{}")
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(task_files.main([str(self.folder / "none.pkl"), "-o", "x"]), 3)
        self.assertIn("none.pkl", said.getvalue())


if __name__ == "__main__":
    unittest.main()
