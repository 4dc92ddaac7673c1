"""Tables of measurements, packed and ranked from Python over the program itself. FORETIME, FORETIME_LIBRARY and FORETIME_SOURCE_DIR name
what is tested."""
import importlib.util
import itertools
import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np

import declared_types

SOURCE = pathlib.Path(os.environ["FORETIME_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "python"))
os.environ["FORETIME_PROGRAM"] = os.environ["FORETIME"]

import foretime  # noqa: E402

WATCH = declared_types.Watch(foretime)
unittest.addModuleCleanup(WATCH.end)


def seconds(m, dtype, block, warps):
    """A cost that depends on problem and configuration: waste at the border, too few warps, too large blocks."""
    waste = np.ceil(m / block) * block / m
    return (
        1e-3
        * waste
        * (m / 512)
        * (1.5 if dtype == "f32" else 1)
        * (1 + abs(np.log2(block / (64 if dtype == "f16" else 32))) * 0.5 + 2 / warps)
    )


def rows(sizes):
    return [
        {
            "M": m,
            "dtype": dtype,
            "block": block,
            "warps": warps,
            "fast": warps > 4,
            "runtime": float(seconds(m, dtype, block, warps)),
        }
        for m, dtype, block, warps in itertools.product(sizes, ("f16", "f32"), (16, 32, 64, 128, 256), (1, 2, 4, 8))
    ]


class Config:
    """As triton.Config."""

    def __init__(self, kwargs, num_warps=4, num_stages=3):
        self.kwargs, self.num_warps, self.num_stages = kwargs, num_warps, num_stages


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.before = os.getcwd()
        os.chdir(cls.scratch.name)
        cls.printed = foretime.pack_table(rows((256, 384, 512, 640, 768)), "table.foretime", group=["M", "dtype"])
        run = foretime.train(
            SOURCE / "configs/table.yaml",
            {
                "data.train": ["table.foretime"],
                "trainer.steps": 300,
                "trainer.threads": 1,
                "run.directory": "runs/table",
            },
        )
        cls.run_of_table = run
        run.export("model.foretime")
        cls.model = foretime.TableModel("model.foretime")

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.before)
        cls.scratch.cleanup()

    def packed(self, text, *options):
        pathlib.Path("t.csv").write_text(text)
        return foretime.command("data", "pack-table", "-o", "t.foretime", "t.csv", *options)

    def refused(self, text, *options):
        with self.assertRaises(foretime.CommandError) as caught:
            self.packed(text, *options)
        self.assertEqual(caught.exception.exit_code, 3, caught.exception.message)
        return caught.exception.message

    def test_no_file_of_another_kind_is_replaced(self):
        from foretime.outputs import expect_replaceable

        table = [{"M": 1, "runtime": 1.0}, {"M": 2, "runtime": 2.0}]
        script = pathlib.Path("myscript.py")
        script.write_text("print()\n")
        pathlib.Path("mine.csv").write_text("M,runtime\n1,1.0\n2,2.0\n")
        os.link("mine.csv", "again.csv")
        for source, out in (
            (table, script),
            ("mine.csv", "mine.csv"),
            ("mine.csv", "again.csv"),
            (table, "model.foretime"),
        ):
            before = pathlib.Path(out).read_bytes()
            with self.assertRaises(foretime.CommandError) as caught:
                foretime.pack_table(source, out)
            self.assertEqual(caught.exception.exit_code, 2)
            self.assertIn("--force", caught.exception.message)
            self.assertEqual(pathlib.Path(out).read_bytes(), before)
        for _ in range(2):
            foretime.pack_table(table, "small.foretime")
        foretime.pack_table(table, script, force=True)
        # What Python code writes itself: bundles that cost models save.
        expect_replaceable("model.foretime", bundle=True)
        expect_replaceable("absent.foretime", bundle=True)
        pathlib.Path("empty").touch()
        expect_replaceable("empty", bundle=True)
        for name, bundle in (
            ("small.foretime", True),
            ("mine.csv", True),
            ("mine.csv", False),
            ("model.foretime", False),
            (".", True),
        ):
            with self.subTest(name), self.assertRaises(FileExistsError):
                expect_replaceable(name, bundle=bundle)
        with self.assertRaises(FileExistsError):
            expect_replaceable("model.foretime", ["model.foretime"], bundle=True)
        expect_replaceable("mine.csv", force=True)

    def test_ranks_problems_that_were_not_measured(self):
        self.assertIn("table.foretime: 10 groups, 200 candidates", self.printed)
        self.assertIn("problem: M, dtype=f16, dtype=f32\n  candidates: block, warps, fast", self.printed)
        self.assertEqual(
            (self.model.group_columns, self.model.candidate_columns), (["M", "dtype"], ["block", "warps", "fast"])
        )
        for dtype in ("f16", "f32"):
            new = [row for row in rows((896,)) if row["dtype"] == dtype]
            times = np.array([row.pop("runtime") for row in new])
            best = self.model.rank(new, top=3)
            self.assertLess(times[best].min(), 1.1 * times.min(), (dtype, best, times))
            scores = self.model.score(new)
            pairs = [(a, b) for a in range(len(new)) for b in range(a) if times[a] != times[b]]
            agree = np.mean([(scores[a] < scores[b]) == (times[a] < times[b]) for a, b in pairs])
            self.assertGreater(agree, 0.8)
        # Rows of several problems, in any order, have the scores that they have alone.
        mixed = [row for row in rows((896, 300)) if row.pop("runtime")][::-1]
        together = self.model.score(mixed)
        some = [place for place, row in enumerate(mixed) if row["M"] == 300 and row["dtype"] == "f32"]
        np.testing.assert_array_equal(together[some], self.model.score([mixed[place] for place in some]))
        with self.assertRaisesRegex(ValueError, "rows of 4 problems"):
            self.model.rank(mixed)
        columns = {name: [row[name] for row in mixed] for name in mixed[0]}
        np.testing.assert_array_equal(self.model.score(columns), together)
        if importlib.util.find_spec("pandas"):
            import pandas

            np.testing.assert_array_equal(self.model.score(pandas.DataFrame(mixed)), together)

    def test_triton_asks_which_configurations_to_try(self):
        def promising(configs, named_args, **kwargs):
            problem = {"M": named_args["M"], "dtype": "f16"}
            asked = [
                {**problem, **config.kwargs, "warps": config.num_warps, "fast": config.num_warps > 4}
                for config in configs
            ]
            return [configs[place] for place in self.model.rank(asked, top=2)]

        configs = [Config({"block": block}, warps) for block in (16, 64, 256) for warps in (1, 8)]
        kept = promising(configs, {"x": None, "M": 896}, extra=3)
        self.assertEqual(len(kept), 2)
        self.assertIn((64, 8), [(config.kwargs["block"], config.num_warps) for config in kept])

    def test_other_columns_are_refused(self):
        new = [{key: value for key, value in row.items() if key != "runtime"} for row in rows((896,))]
        for change, message in (
            (lambda row: row.pop("warps"), "no column warps, which --like has"),
            (lambda row: row.update(stages=3), "column stages, which --like does not have"),
            (lambda row: row.update(runtime=1.0), "column runtime, which --like does not have"),
            (lambda row: row.update(dtype="bf16"), "dtype: found bf16, expected one of f16, f32"),
            (lambda row: row.update(block="big"), "block: found 'big', expected a finite number"),
        ):
            changed = [dict(row) for row in new]
            for row in changed:
                change(row)
            with self.assertRaises(foretime.CommandError) as caught:
                self.model.score(changed)
            self.assertIn(message, caught.exception.message)
        # A packed table of other columns, wherever it is used.
        pathlib.Path("small.foretime").unlink(missing_ok=True)
        self.packed(
            "M,dtype,block,warps,slow,runtime\n1,f16,16,1,0,1\n1,f32,16,1,0,2\n1,f16,32,1,0,3\n1,f32,32,1,0,3\n",
            "--group",
            "M,dtype",
        )
        for words in (
            ("rank", "model.foretime", "t.foretime"),
            ("rank", "runs/table", "t.foretime"),
            ("evaluate", "runs/table", "t.foretime"),
            (
                "train",
                SOURCE / "configs/table.yaml",
                'data.train=["*.foretime"]',
                "data.root=.",
                "run.directory=runs/b",
            ),
        ):
            if words[0] == "train":
                pathlib.Path("model.foretime").rename("model.bundle")
            try:
                with self.assertRaises(foretime.CommandError, msg=words) as caught:
                    foretime.command(*map(str, words))
            finally:
                if words[0] == "train":
                    pathlib.Path("model.bundle").rename("model.foretime")
            self.assertRegex(
                caught.exception.message, "(no column (fast|slow)|column (slow|fast)), which .* (has|does not have)"
            )
        with self.assertRaisesRegex(foretime.ForetimeError, "fast"):
            foretime.open("model.foretime").read("t.foretime")
        # Nor are graphs of tiles taken for tables.
        with self.assertRaisesRegex((foretime.ForetimeError, ValueError), "a model of a table"):
            foretime.open("model.foretime").graph(
                np.zeros((1, 3), np.float32), np.zeros(1, np.uint8), np.zeros((0, 2), np.int64), [], "tile:xla"
            )

    def test_tables_that_cannot_be_meant_are_refused(self):
        head = "a,b,runtime\n"
        for text, options, message in (
            ("", (), "t.csv: found an empty file, expected a table"),
            (head, (), "no row"),
            ("a,b\n1,2\n", (), "--runtime runtime: no such column in t.csv: a,b"),
            ("a,a,runtime\n1,2,3\n", (), "t.csv:1: found the column a twice"),
            (head + "1,2,3\n1,2\n", (), "t.csv:3: 2 values, expected 3: a,b,runtime"),
            (head + "1,,3\n", (), "t.csv:2: b: found no value; leave the column out (--leave-out b)"),
            (
                head + "1,2,-3\n",
                (),
                "t.csv:2: runtime: found '-3', expected a run time above 0; if it marks failures, add --failed=-3",
            ),
            (
                "1,2,0.5\n1,3,0.25\n",
                (),
                "t.csv:1: found numbers (1,2,0.5), expected a line of the columns' names first: no header?",
            ),
            (
                ",a,runtime\n0,1,2\n2,2,3\n1,3,3\n",
                (),
                "t.csv:4: found '1' in the first column, which has no name, expected 0, 1, 2",
            ),
            ("a,,runtime\n0,1,2\n", (), "t.csv:1: found no name of column 2"),
            (
                head + "1,2,3\n1,3,1e20\n1,4,1e20\n",
                (),
                "t.csv:3: runtime: found 1e20, which is more than a million times 3, the next faster one; if it marks failures, add --failed=1e20",
            ),
            (
                "a;b;runtime\n1;2;0,5\n",
                (),
                "t.csv:2: found '0,5' between semicolons, expected numbers with a decimal point",
            ),
            (
                '{"key": [512], "configs_timings": [[{}, [0.02]]]}',
                (),
                "t.csv: found Triton's autotuning cache, expected a table",
            ),
            (head + "1,2,soon\n", (), "found 'soon'"),
            (head + "1,2,3\n1,inf,3\n", (), "t.csv:3: b: found 'inf', expected a finite number"),
            (head + '1,"2,3\n', (), "t.csv:2: found an open quote"),
            (head + "1,2,\n", (), "no row has a run time"),
            (head + "1,2,3\n", ("--group", "c"), "--group c: no such column in t.csv: a,b,runtime"),
            (head + "1,2,3\n", ("--group", "a,b"), "found no column that describes candidates"),
            (head + "1,2,3\n", ("--leave-out", "x"), "--leave-out x: no such column"),
            (
                ",".join(f"c{i}" for i in range(25)) + ",runtime\n" + "1," * 25 + "1\n",
                (),
                "25 columns describe candidates",
            ),
            (head + "".join(f"w{i},1,1\n" for i in range(65)), (), "a: found 65 different words"),
        ):
            self.assertIn(message, self.refused(text, *options), text[:60])
        # Quotes, spaces, blank lines, a mark of byte order, failures and words that look like numbers beside words.
        printed = self.packed(
            '\ufeffname, "a ""b""" ,t\r\n"x, y",1,2.5\r\n\r\nz,True,0.5\nz,2,\nz,3,inf\n', "--runtime", "t"
        )
        self.assertIn('1 groups, 2 candidates\n  problem: one\n  candidates: name=x, y, name=z, a "b"', printed)

    def test_tables_as_spreadsheets_pandas_and_tuners_write_them(self):
        for delimiter in ",;\t":
            with self.subTest(delimiter):
                text = "name,block,runtime\nx,1,2.5\n'y,z',2,0.5\n".replace(",", delimiter).replace("'", '"')
                self.assertIn(
                    "1 groups, 2 candidates\n  problem: one\n  candidates: name=x, name=y" + delimiter + "z, block"
                    if delimiter != "\t"
                    else "1 groups, 2 candidates",
                    self.packed(text),
                )
                foretime.pack_table("t.csv", "t.foretime")
        # The index that pandas writes, also of some of its rows.
        text = ",block,runtime\n0,16,2.5\n3,32,0.5\n"
        self.assertIn("1 groups, 2 candidates\n  problem: one\n  candidates: block\n", self.packed(text))
        # Failures in the words of pandas and of Kernel Tuner, and in others.
        text = "block,runtime\n" + "".join(
            f"{place},{word}\n"
            for place, word in enumerate(
                (
                    1.5,
                    "",
                    "N/A",
                    "null",
                    "None",
                    "nan",
                    "inf",
                    "InvalidConfig",
                    "CompilationFailedConfig",
                    "RuntimeFailedConfig",
                    2.5,
                )
            )
        )
        self.assertIn("1 groups, 2 candidates", self.packed(text))
        text = "block,runtime\n1,1.5\n2,0\n3,-1\n4,1e+20\n5,timeout\n6,2.5\n"
        self.assertIn(
            "1 groups, 2 candidates", self.packed(text, "--failed=0,-1", "--failed", "1e20", "--failed=timeout")
        )
        rows_with_marks = [
            {"block": 1, "runtime": 1.5},
            {"block": 2, "runtime": None},
            {"block": 3, "runtime": float("nan")},
            {"block": 4, "runtime": "timeout"},
            {"block": 5, "runtime": 0},
            {"block": 6, "runtime": 2.5},
        ]
        self.assertIn(
            "1 groups, 2 candidates", foretime.pack_table(rows_with_marks, "t.foretime", failed=["timeout", 0])
        )
        # A file of rows to be scored is read alike.
        new = [row for row in rows((896,)) if row.pop("runtime")]
        names = list(new[0])
        pathlib.Path("new.csv").write_text(
            "\ufeff"
            + ";".join(["", *names])
            + "\n"
            + "".join(f"{place};" + ";".join(str(row[name]) for name in names) + "\n" for place, row in enumerate(new))
        )
        np.testing.assert_array_equal(self.model.score("new.csv"), self.model.score(new))


if __name__ == "__main__":
    unittest.main()
