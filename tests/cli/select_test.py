"""foretime select: which candidates to measure, of records, texts and graph files."""
import collections
import gzip
import json

from bundles import BundleTest
from program import SAMPLES, SOURCE

ANSOR = SOURCE / "samples" / "ansor"
TEXTS = SOURCE / "samples" / "tir" / "resnet18_conv2d_save_json.jsonl.gz"
DAGS = ("--dags", "compute_dag.json")
METHODS = ("representative", "diverse", "uncertain", "mixed", "random")


class SelectTest(BundleTest):
    def select(self, *arguments, code=0):
        return self.run_foretime("select", *arguments, code=code)

    def chosen(self, *arguments):
        return self.rows_of(self.select(*arguments).stdout)

    def ids(self, *arguments):
        return [row["id"] for row in self.chosen("ensemble.foretime", "records.json", *DAGS, *arguments)]

    def test_all_methods_choose_distinct_lines_and_write_them(self):
        lines = self.read("records.json").decode().splitlines()
        orders = set()
        for method in METHODS:
            rows = self.chosen("ensemble.foretime", "records.json", *DAGS, "-n", 7, "--method", method, "-o", "chosen.json", "--force")
            self.assertEqual([int(row["choice"]) for row in rows], list(range(7)))
            self.assertEqual({row["group"] for row in rows}, {"[matmul,128,128,128]"})
            places = sorted({int(row["line"]) for row in rows})
            self.assertEqual(len(places), 7, method)
            self.assertEqual([int(row["line"]) - 1 for row in rows], [int(row["id"]) for row in rows])
            self.assertEqual(self.read("chosen.json").decode().splitlines(), [lines[place - 1] for place in places])
            self.assertTrue(all(float(row["uncertainty"]) >= 0 for row in rows))
            scores = {one["candidate"]: one["score"] for one in self.json_of("rank", "ensemble.foretime", "records.json", *DAGS, "--format", "json")[0]["ranking"]}
            for row in rows:
                self.assertAlmostEqual(float(row["score"]), scores[int(row["candidate"])], delta=1e-5)
            self.assertEqual(self.ids("-n", 7, "--method", method, "--threads", 2), [row["id"] for row in rows], "the same again")
            orders.add(tuple(row["id"] for row in rows))
        self.assertEqual(len(orders), len(METHODS))
        uncertain = self.chosen("ensemble.foretime", "records.json", *DAGS, "-n", 30, "--method", "uncertain")
        values = [float(row["uncertainty"]) for row in uncertain]
        self.assertEqual(values, sorted(values, reverse=True))
        self.assertNotEqual(self.ids("-n", 7, "--method", "random"), self.ids("-n", 7, "--method", "random", "--seed", 2))
        self.assertEqual(self.ids("-n", 7), self.ids("-n", 7, "--seed", 2))
        diverse = self.ids("-n", 9, "--method", "diverse")
        self.assertEqual(diverse[:4], self.ids("-n", 4, "--method", "diverse"))

    def test_what_is_measured_is_not_chosen_again(self):
        records = [json.loads(line) for line in self.read("records.json").decode().splitlines()]
        for record in records[:6]:
            record["r"] = [[0.5], 0, 1.0, 1]
        self.write("measured.json", "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records[:6]))
        for method in METHODS:
            done = self.select("ensemble.foretime", "records.json", *DAGS, "-n", 24, "--method", method, "--measured", "measured.json")
            self.assertIn("skipped 6 candidates that are already measured", done.stderr)
            self.assertEqual(sorted(int(row["id"]) for row in self.rows_of(done.stdout)), list(range(6, 30)))
        answer = self.json_of("select", "ensemble.foretime", "records.json", *DAGS, "-n", 3, "--measured", "measured.json", "--json")
        task, = answer["tasks"]
        self.assertEqual([answer["method"], task["candidates"], task["measured"], len(task["chosen"])], ["representative", 24, 6, 3])
        self.assertEqual(set(task["chosen"][0]), {"candidate", "file", "id", "line", "score", "uncertainty"})
        self.assertNotEqual(self.ids("-n", 1, "--method", "diverse"), self.ids("-n", 1, "--method", "diverse", "--measured", "measured.json"))

    def test_what_cannot_be_scored_or_stands_there_twice_is_left_out(self):
        lines = self.read("records.json").decode().splitlines()
        lines[3] = lines[3].replace('["SP", 2, 0', '["SP", 9, 0')
        self.write("more.json", "\n".join([*lines, "nonsense", "# a comment", lines[0], lines[0].replace("128, 128, 128", "7, 7, 7")]) + "\n")
        done = self.select("loops.foretime", "more.json", *DAGS, "-n", 29, "-o", "-chosen.json")
        for text in ("more.json: 1 lines left out, the first: more.json:31: ", "more.json: 1 candidates not scored, the first: more.json:4: ",
                     "more.json: skipped 1 duplicate candidates",
                     'compute_dag.json: 1 workloads of the records are not in it, the first: ["matmul", 7, 7, 7]'):
            self.assertIn(text, done.stderr)
        self.assertEqual(len(self.read("-chosen.json").decode().splitlines()), 29)
        self.assertIn("--number 30: found only 29 candidates in 1 tasks", self.select("loops.foretime", "more.json", *DAGS, "-n", 30, code=3).stderr)

    def test_tasks_get_equal_shares(self):
        with gzip.open(ANSOR / "records.jsonl.gz", "rt") as file:
            lines = [line for _, line in zip(range(600), file)]
        self.write("a.json.gz", gzip.compress("".join(lines[:300]).encode()))
        self.write("b.json", "".join(lines[300:]))
        rows = self.chosen("loops.foretime", "a.json.gz", "b.json", "--dags", ANSOR / "dags.jsonl.gz", "-n", 110, "-o", "out.json")
        counts = collections.Counter(row["group"] for row in rows)
        self.assertEqual(sum(counts.values()), 110)
        self.assertEqual(min(counts.values()), 1)  # a task of one record
        self.assertLessEqual(max(counts.values()) - sorted(counts.values())[1], 1)
        self.assertTrue({row["file"] for row in rows} == {"a.json.gz", "b.json"} and rows[0]["id"].startswith("a:"))
        expected = [lines[int(row["line"]) - 1 + (0 if row["file"] == "a.json.gz" else 300)] for row in rows]
        written = self.read("out.json").decode().splitlines(keepends=True)
        self.assertEqual(sorted(written), sorted(expected))
        self.assertEqual(written, [line for line in lines if line in set(expected)])

    def test_texts_and_graph_files(self):
        rows = self.chosen("loops.foretime", TEXTS, "-n", 14, "--member", "before_lowering", "-o", "out.jsonl")
        self.assertEqual(collections.Counter(collections.Counter(row["group"] for row in rows).values()), {1: 10, 2: 2})
        with gzip.open(TEXTS, "rt") as file:
            lines = file.read().splitlines()
        self.assertEqual(self.read("out.jsonl").decode().splitlines(), sorted((lines[int(row["line"]) - 1] for row in rows), key=lines.index))
        again = self.chosen("loops.foretime", TEXTS, "-n", 10, "--member", "before_lowering", "--measured", "out.jsonl")
        self.assertFalse({row["id"] for row in rows} & {row["id"] for row in again})
        for method in ("representative", "diverse", "random"):
            rows = self.chosen("trees.foretime", SAMPLES / "C1.npz", SAMPLES / "C3.npz", "-n", 9, "--method", method)
            self.assertEqual(sorted(collections.Counter(row["group"] for row in rows).items()), [("C1", 5), ("C3", 4)])
            self.assertEqual({row["line"] for row in rows}, {""})
            self.assertEqual(len({(row["group"], row["candidate"]) for row in rows}), 9)

    def test_graph_files_that_are_measured(self):
        self.run_foretime("data", "pack", "-o", "both.foretime", SAMPLES / "C1.npz", SAMPLES / "C3.npz", "--format", "programs")
        first = self.chosen("trees.foretime", SAMPLES / "C1.npz", "-n", 4, "--method", "diverse")
        files = ("trees.foretime", SAMPLES / "C1.npz", SAMPLES / "C3.npz", "-n", 4, "--method", "diverse")
        again = self.json_of("select", *files, "--measured", SAMPLES / "C3.npz", "--json")["tasks"]  # all of C3 is known
        self.assertEqual([(task["group"], task["measured"]) for task in again], [("C1", 0)])
        self.assertEqual([one["id"] for one in again[0]["chosen"]], [row["id"] for row in first])
        self.assertIn("C1.npz: found no unmeasured candidate",
                      self.select("trees.foretime", SAMPLES / "C1.npz", "-n", 4, "--measured", "both.foretime", code=3).stderr)

        self.write("measured.csv", "size,block,ms\n" + "".join(f"{size},{block},{(block + 1) / size}\n" for size in (1, 2) for block in range(8)))
        self.write("new.csv", "size,block\n" + "".join(f"{size},{block}\n" for size in (2, 3) for block in range(12)))
        self.run_foretime("data", "pack-table", "-o", "measured.foretime", "measured.csv", "--runtime", "ms", "--group", "size")
        self.run_foretime("train", "--quiet", SOURCE / "configs/table.yaml", "data.train=[measured.foretime]", "data.holdout=0.5",
                          "trainer.steps=4", "run.directory=table")
        self.run_foretime("data", "pack-table", "-o", "new.foretime", "new.csv", "--like", "measured.foretime")
        for method in ("representative", "diverse", "random"):
            done = self.select("table", "new.foretime", "-n", 10, "--method", method, "--measured", "measured.foretime")
            self.assertIn("skipped 8 candidates that are already measured", done.stderr)
            rows = self.rows_of(done.stdout)
            self.assertEqual({row["candidate"] for row in rows if row["group"] == "size=2"}, {"8", "9", "10", "11"})
            self.assertEqual(len({row["candidate"] for row in rows if row["group"] == "size=3"}), 6)

    def test_models_together_are_an_ensemble(self):
        one = ("loops.foretime", "records.json", *DAGS, "-n", 5)
        self.assertIn("needs several models, and loops.foretime is one; give another with --ensemble",
                      self.select(*one, "--method", "uncertain", code=2).stderr)
        self.assertEqual({row["uncertainty"] for row in self.chosen(*one)}, {""})
        rows = self.chosen(*one, "--method", "mixed", "--ensemble", "ensemble.foretime")
        self.assertTrue(all(float(row["uncertainty"]) > 0 for row in rows))
        self.assertIn("--ensemble: trees.foretime is of kind trees, expected loops as loops.foretime is",
                      self.select(*one, "--ensemble", "trees.foretime", code=2).stderr)

    def test_runs_choose_as_their_bundles(self):
        self.run_foretime("data", "pack-records", "-o", "packed.foretime", "records.json", *DAGS)
        self.run_foretime("train", "--quiet", SOURCE / "configs/statement_cost.yaml", "data.root=.", "data.train=[packed.foretime]", "data.test=[]",
                          "model.hidden=8", "model.statement_cost.loop_hidden=8", "model.ensemble_size=2", "model.statement_cost.context=true",
                          "trainer.steps=2", "optimizer.warmup_steps=1", "trainer.threads=1", "run.directory=run")
        self.run_foretime("export", "run", "run.foretime")
        for method in METHODS:
            rows = [self.chosen(model, "records.json", *DAGS, "-n", 6, "--method", method) for model in ("run", "run.foretime")]
            self.assertEqual(*rows)
        self.assertEqual(len(self.chosen("run.foretime", "packed.foretime", "-n", 6, "--method", "mixed")), 6)

    def test_bad_input(self):
        records = ("ensemble.foretime", "records.json")
        self.write("binary.json", bytes(range(256)))
        self.write("bad-dags.json", "{}\n")
        self.write("notes.txt", "a note\n")
        self.write("empty.json", "# nothing\n")
        (self.folder / "empty").mkdir()
        for text, code, *arguments in (
                ("found nothing", 2, "ensemble.foretime"),
                ("--number", 2, *records, *DAGS),
                ("--number: Value 0 not in range", 2, *records, *DAGS, "-n", 0),
                ("--number", 2, *records, *DAGS, "-n", "many"),
                ("--number 31: found 30 candidates", 3, *records, *DAGS, "-n", 31),
                ("--method: best not in", 2, *records, *DAGS, "-n", 3, "--method", "best"),
                ("records.json: tuning records, which name schedules and no programs; give --dags FILE", 2, *records, "-n", 3),
                ("bad-dags.json:1: ", 3, *records, "--dags", "bad-dags.json", "-n", 3),
                ("none.json: cannot be read", 3, *records, "--dags", "none.json", "-n", 3),
                ("nothing.json: nothing of this name", 3, "ensemble.foretime", "nothing.json", *DAGS, "-n", 3),
                ("nothing.json: nothing of this name", 3, *records, *DAGS, "-n", 3, "--measured", "nothing.json", "-o", "out"),
                ("none*.json: nothing of this name", 3, "ensemble.foretime", "none*.json", *DAGS, "-n", 3),
                ("notes.txt: unknown form of file, expected groups", 3, "ensemble.foretime", "notes.txt",
                 *DAGS, "-n", 3),
                ("binary.json", 3, "ensemble.foretime", "binary.json", *DAGS, "-n", 3),
                ("empty.json: unknown form of file, expected groups", 3, "ensemble.foretime", "empty.json", *DAGS, "-n", 1),
                ("--dags needs a model of loop programs; trees.foretime is a model of trees", 2, "trees.foretime", SAMPLES / "C1.npz", *DAGS, "-n", 3),
                ("--member needs a model of programs; layout.foretime is a model of layout", 2, "layout.foretime", "module.pb", "--member", "x", "-n", 3),
                ("C1.npz", 3, "layout.foretime", SAMPLES / "C1.npz", "-n", 3),
                ("--output: writes lines of records or texts", 2, "trees.foretime", SAMPLES / "C1.npz", "-n", 3, "-o", "out"),
                ("--output: writes lines of records or texts, but tree.json has none", 2, "loops.foretime", "tree.json", "-n", 1, "-o", "out"),
                ("--output records.json: is an input of this command", 2, *records, *DAGS, "-n", 3, "-o", "records.json"),
                ("--output: ", 2, *records, *DAGS, "-n", 3, "-o", "no/such/folder/out.json"),
                ("--measured: tree.json holds save_json text, but the candidates are not texts", 2, *records, *DAGS, "-n", 3, "--measured", "tree.json"),
                ("C1.npz holds neither tuning records nor save_json text, but the candidates do", 2, *records, *DAGS, "-n", 3, "--measured",
                 SAMPLES / "C1.npz"),
                ("--measured: only for programs and tiles; layout.foretime is a model of layouts", 2, "layout.foretime", "module.pb", "-n", 1,
                 "--measured", "module.pb"),
                ("--threads", 2, *records, *DAGS, "-n", 3, "--threads", -1),
                ("none.foretime", 3, "none.foretime", "records.json", *DAGS, "-n", 3),
                ("empty: holds no complete checkpoint", 3, "empty", "records.json", *DAGS, "-n", 3),
                ("records.json", 3, "records.json", "records.json", *DAGS, "-n", 3)):
            with self.subTest(arguments=arguments):
                done = self.select(*arguments, code=code)
                if text != "found nothing":
                    self.assertIn(text, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertNotIn("terminate", done.stderr)
                self.assertFalse((self.folder / "out").exists())
