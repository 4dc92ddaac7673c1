"""What foretime.tvm_names and foretime.tir_program take for granted, against TVM's public sources.

FORETIME_TVM_SOURCES names checkouts of TVM, of any release from 0.10 on, separated by colons; nothing of them is run.
"""
import ast
import os
import pathlib
import re

from support import FolderTest

from foretime.tir_program import EXPRESSIONS
from foretime.tvm_names import GENERATIONS, LOWERING, OTHER_NAMES

# Fields that foretime.tir_program reads, by class; several names: those of releases one after the other.
FIELDS = {
    "PrimFunc": ("params", "body"),
    "For": ("loop_var", "min", "extent", "kind", "body", "annotations"),
    "While": ("condition", "body"),
    "IfThenElse": ("condition", "then_case", "else_case"),
    "AttrStmt": ("attr_key", "value", "body"),
    "LetStmt": ("var", "value", "body"),
    "Bind": ("var", "value"),
    "SeqStmt": ("seq",),
    "Evaluate": ("value",),
    "BufferStore": ("buffer", "indices", "value"),
    "BufferLoad": ("buffer", "indices"),
    "Allocate": ("extents", "body"),
    "AllocBuffer": ("buffer",),
    "Block": ("iter_vars", "init", "body", "alloc_buffers", "annotations"),
    "SBlock": ("iter_vars", "init", "body", "alloc_buffers", "annotations"),
    "BlockRealize": ("iter_values", "predicate", "block"),
    "SBlockRealize": ("iter_values", "predicate", "block"),
    "Buffer": ("shape",),
    "BufferType": ("shape",),
    "IterVar": ("var", "dom", "iter_type"),
    "Range": ("min",),
    "IntImm": ("value",),
    "FloatImm": ("value",),
    "Call": ("op", "args"),
    "Let": ("var", "value", "body"),
    "Shuffle": ("vectors", "indices"),
    **{name: fields for name, fields in EXPRESSIONS.items() if fields != ("a", "b") and name != "Not"},
}
SOME_RELEASES = {
    "LetStmt",
    "Bind",
    "Allocate",
    "AllocBuffer",
    "Block",
    "SBlock",
    "BlockRealize",
    "SBlockRealize",
    "Buffer",
    "BufferType",
}


def checkouts():
    """Folders of TVM."""
    return [pathlib.Path(folder) for folder in os.environ.get("FORETIME_TVM_SOURCES", "").split(":") if folder]


def functions_of(path, owner=None):
    """name → names of arguments, of a file's functions, or of those of one of its classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    body = tree.body
    if owner:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner)
    return {
        node.name: [argument.arg for argument in node.args.args] for node in body if isinstance(node, ast.FunctionDef)
    }


class Contract(FolderTest):
    def setUp(self):
        super().setUp()
        if not checkouts():
            self.skipTest("needs FORETIME_TVM_SOURCES, checkouts of TVM separated by colons")

    def generation_of(self, checkout):
        """(programs, MetaSchedule, schedules) as folders of this checkout."""
        folders = [tuple(checkout / "python" / name.replace(".", "/") for name in names) for names in GENERATIONS]
        found = [names for names in folders if names[1].is_dir() and names[0].is_dir()]
        self.assertEqual(len(found), 1, checkout)
        return found[0]

    def test_fields(self):
        for checkout in checkouts():
            headers = "\n".join(
                path.read_text(encoding="utf-8") for path in sorted((checkout / "include" / "tvm").rglob("*.h"))
            )
            missing = []
            for name, fields in FIELDS.items():
                found = re.search(rf"^class {name}Node : [^;]*?^}};", headers, re.M | re.S | re.X) or re.search(
                    rf"^class {name}Node\s*:.*?^}};", headers, re.M | re.S
                )
                if not found:
                    missing += [] if name in SOME_RELEASES else [name]
                    continue
                missing += [f"{name}.{field}" for field in fields if not re.search(rf'"{field}"', found.group())]
            self.assertEqual(missing, [], checkout)

    def test_passes(self):
        for checkout in checkouts():
            programs, _, schedules = self.generation_of(checkout)
            known = {}
            for folder in {programs, schedules}:
                known.update(functions_of(folder / "transform" / "transform.py"))
            self.assertEqual(
                [name for name in LOWERING if name not in known and OTHER_NAMES.get(name) not in known], [], checkout
            )

    def test_cost_models_and_databases(self):
        for checkout in checkouts():
            _, meta_schedule, schedules = self.generation_of(checkout)
            model = functions_of(meta_schedule / "cost_model" / "cost_model.py", "PyCostModel")
            self.assertEqual(
                {name: model[name] for name in ("load", "save", "update", "predict")},
                {
                    "load": ["self", "path"],
                    "save": ["self", "path"],
                    "update": ["self", "context", "candidates", "results"],
                    "predict": ["self", "context", "candidates"],
                },
                checkout,
            )
            utils = [
                meta_schedule / "utils.py",
                checkout / "python" / "tvm" / "ir" / "utils.py",
            ]  # the second: from 0.26 on
            known = {name: words for path in utils if path.is_file() for name, words in functions_of(path).items()}
            self.assertEqual(known["derived_object"], ["cls"], checkout)
            database = meta_schedule / "database" / "database.py"
            self.assertEqual(functions_of(database, "Workload")["from_json"], ["json_obj"], checkout)
            self.assertEqual(functions_of(database, "TuningRecord")["from_json"], ["json_obj", "workload"], checkout)
            trace = functions_of(schedules / "schedule" / "trace.py", "Trace")
            self.assertEqual(trace["apply_to_schedule"][:3], ["self", "sch", "remove_postproc"], checkout)
            tune = meta_schedule / "tir_integration.py"
            tune = (
                functions_of(tune)["tune_tir"]
                if tune.is_file()
                else functions_of(meta_schedule / "tune.py")["tune_tir"]
            )
            self.assertEqual(tune[:3], ["mod", "target", "config" if "config" in tune else "work_dir"], checkout)
