"""How programs of TVM become text, by stand-ins for the classes of TVM's releases; with a library, how the text is read."""
import json
import os
import pathlib
import tempfile
import types

from fake_tvm import GENERATIONS, load_programs
from support import FolderTest, real_bundle

from foretime.tir_program import Unreadable, program_text, target_text


def of_each_generation():
    """(generation, its fake_programs)"""
    for generation in GENERATIONS:
        with tempfile.TemporaryDirectory() as folder:
            yield generation, load_programs(pathlib.Path(folder), generation)


class Document:
    """A text, and its nodes by number."""

    def __init__(self, text):
        self.content = json.loads(text)
        self.nodes = self.content["nodes"]

    def tree(self, number=None):
        """(class, numbers and children) of a node and what is below it; references of lists and fields are followed."""
        node = self.nodes[self.content["root"] if number is None else number]
        kind = node["type_key"]
        if "data" in node:
            return [self.tree(entry) for entry in node["data"]]
        fields = node.get("attrs", {})
        if kind in ("IntImm", "FloatImm"):
            return float(fields["value"])
        if kind == "tir.Var":
            return f"variable {number}"
        if kind == "Op":
            return node["repr_str"]
        return (kind, {name: int(value) if name == "kind" else self.tree(int(value)) for name, value in fields.items()})

    def count(self, kind):
        return sum(node["type_key"] == kind for node in self.nodes)


class Programs(FolderTest):
    def test_all_generations_give_one_text(self):
        texts = {generation: program_text(made.matmul()) for generation, made in of_each_generation()}
        self.assertEqual(len(set(texts.values())), 1, texts)

    def test_blocks_become_loops_with_conditions(self):
        for generation, made in of_each_generation():
            with self.subTest(generation):
                document = Document(
                    program_text(made.matmul(predicate=made.LT(a=made.variable("x"), b=made.number(3))))
                )
                self.assertEqual(
                    [document.count(kind) for kind in ("tir.Block", "tir.SBlock", "tir.BlockRealize")], [0] * 3
                )
                self.assertEqual(document.count("tir.BufferStore"), 2)
                self.assertEqual(document.count("tir.IfThenElse"), 2)  # of the predicate, and of the first value
                kind, fields = document.tree()
                self.assertEqual((kind, len(fields["params"]), len(fields["buffer_map"])), ("tir.PrimFunc", 3, 6))
                outer = fields["body"]
                values = []
                while outer[0] == "tir.AttrStmt":
                    values.append(outer[1]["value"])
                    outer = outer[1]["body"]
                self.assertEqual(sorted(values), [1.0, 64.0])
                self.assertEqual((outer[0], outer[1]["kind"], outer[1]["extent"]), ("tir.For", 1, 4.0))

    def test_axes_are_what_they_are_bound_to(self):
        for generation, made in of_each_generation():
            with self.subTest(generation):
                i, v, data = made.variable("i"), made.variable("v"), made.buffer("data", 8)
                store = made.BufferStore(buffer=data, indices=[v], value=made.FloatImm(value=1.0))
                twice = made.Mul(a=i, b=made.number(2))
                body = made.loop(i, 4, made.block([made.axis(v, 8)], [twice], store))
                _, fields = Document(program_text(made.function([data], body))).tree()
                loop = fields["body"][1]
                self.assertEqual(loop["body"][1]["indices"], [("tir.Mul", {"a": loop["loop_var"], "b": 2.0})])

    def test_allocations_hold_to_the_end_of_their_statements(self):
        for generation, made in of_each_generation():
            with self.subTest(generation):
                data, part = made.buffer("data", 8), made.buffer("part", 4)
                store = made.BufferStore(buffer=part, indices=[made.number(0)], value=made.FloatImm(value=1.0))
                if generation in ("s_tir", "buffers are variables"):
                    i = made.variable("i")
                    use = made.BufferStore(buffer=data, indices=[i], value=made.FloatImm(value=2.0))
                    body = made.SeqStmt(
                        seq=[made.AllocBuffer(buffer=part), store, made.Bind(var=i, value=made.number(7)), use]
                    )
                else:
                    i = made.variable("i")
                    use = made.BufferStore(buffer=data, indices=[i], value=made.FloatImm(value=2.0))
                    rest = made.LetStmt(var=i, value=made.number(7), body=use)
                    body = made.block([], [], made.SeqStmt(seq=[store, rest]), allocations=[part])
                _, fields = Document(program_text(made.function([data], body))).tree()
                kind, allocation = fields["body"]
                self.assertEqual((kind, allocation["extents"]), ("tir.Allocate", [4.0]))
                sequence = allocation["body"][1]["seq"]
                self.assertEqual(
                    [(kind, store["indices"]) for kind, store in sequence],
                    [("tir.BufferStore", [0.0]), ("tir.BufferStore", [7.0])],
                )

    def test_calls_have_the_names_of_old_releases(self):
        for generation, made in of_each_generation():
            with self.subTest(generation):
                data = made.buffer("data", 8)
                prefix = "tirx" if "variables" in generation else "tir"
                value = made.Call(op=made.Op(name=f"{prefix}.exp"), args=[made.BufferLoad(buffer=data, indices=[0])])
                store = made.BufferStore(buffer=data, indices=[True], value=made.Cast(value=value))
                document = Document(program_text(made.function([data], store)))
                self.assertIn('{"type_key": "Op", "repr_str": "tir.exp"}', json.dumps(document.nodes))

    def test_classes_of_later_releases_are_leaves(self):
        with tempfile.TemporaryDirectory() as folder:
            made = load_programs(folder, "buffers are variables")
        data = made.buffer("data", 8)
        store = made.BufferStore(buffer=data, indices=[0], value=made.Novelty())
        document = Document(program_text(made.function([data], made.SeqStmt(seq=[store, made.Novelty()]))))
        self.assertEqual(document.count("Novelty"), 2)

    def test_what_cannot_be_written_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            made = load_programs(folder, "s_tir")
        data, i = made.buffer("data", 8), made.variable("i")
        store = made.BufferStore(buffer=data, indices=[i], value=made.FloatImm(value=1.0))
        stepping = made.loop(i, 8, store)
        stepping.step = made.number(2)
        with self.assertRaises(Unreadable) as caught:
            program_text(made.function([data], stepping))
        self.assertIn("a loop with a step", str(caught.exception))
        deep = i
        for _ in range(10000):
            deep = made.Add(a=deep, b=made.number(1))
        with self.assertRaises(Unreadable) as caught:
            program_text(made.function([data], made.Evaluate(value=deep)))
        self.assertIn("nested too deep", str(caught.exception))

    def test_the_text_names_target_and_version(self):
        with tempfile.TemporaryDirectory() as folder:
            made = load_programs(folder, "s_tir")
        target = types.SimpleNamespace(
            kind=types.SimpleNamespace(name="llvm"),
            attrs={"mcpu": "znver4", "num-cores": made.number(2), "mattr": ["+avx2", "+fma"], "keys": ["cpu"]},
        )
        self.assertEqual(target_text(target), "llvm -mcpu=znver4 -mattr=+avx2,+fma -num-cores=2")
        content = json.loads(program_text(made.program(1), target_text(target), "0.27.dev0"))
        self.assertEqual(
            content["attrs"],
            {
                "written_by": "foretime",
                "tvm": "0.27.dev0",
                "target": "llvm -mcpu=znver4 -mattr=+avx2,+fma -num-cores=2",
            },
        )

    def test_a_model_sees_the_loops_of_blocks(self):
        import foretime

        model = foretime.open(real_bundle())
        with tempfile.TemporaryDirectory() as folder:
            made = load_programs(folder, "buffers are variables")
        scores = model.score_tir(
            [program_text(program) for program in (made.matmul(), made.lowered_matmul(), made.program(1))]
        )
        self.assertEqual(scores[0], scores[1])
        self.assertNotEqual(scores[0], scores[2])

    def test_the_machine_of_the_target_counts(self):
        import foretime

        if not os.environ.get("FORETIME_LIBRARY"):
            self.skipTest("needs FORETIME_LIBRARY")
        model = foretime.open("x86-cpu")
        with tempfile.TemporaryDirectory() as folder:
            program = load_programs(folder, "s_tir").matmul()
        targets = (
            "llvm -mcpu=znver5 -num-cores=2",
            "llvm -mcpu=core-avx2 -num-cores=2",
            "llvm -mcpu=znver5 -num-cores=1",
        )
        scores = model.score_tir([program_text(program, target) for target in targets])
        self.assertEqual(len(set(scores)), 3, scores)
        refused = model.score_tir([program_text(program, "cuda -arch=sm_80")])
        self.assertFalse(refused[0] < float("inf"))
        self.assertIn("expected one for CPUs", model.failure())
