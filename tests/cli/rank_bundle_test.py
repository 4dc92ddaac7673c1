"""foretime rank with bundles: graph files, candidates from elsewhere, tuning records and syntax trees."""
import gzip
import json
import subprocess

import numpy

from bundles import BundleTest
from hlo_test import LAYOUTS, TILES, layout_run, tile_run, tuning
from program import FORETIME, SAMPLES, environment

NODES = (4, 5, 6)  # of module.pb: convolution.14, dot.15 and reshape.16


class RankBundleTest(BundleTest):
    def rank(self, *arguments, code=0):
        return self.run_foretime("rank", *arguments, code=code)

    def ranking(self, *arguments):
        return json.loads(self.rank(*arguments, "--format", "json").stdout)

    def candidates(self, content, name="candidates.json"):
        return self.write(name, {"candidates": content})

    def test_graph_files(self):
        self.write("layouts.pb", LAYOUTS)
        self.synthesize("graph.npz", 60, 5, 40)
        for file in ("graph.npz", "layouts.pb"):
            self.run_foretime("data", "pack", "-o", "packed.foretime", file)
            groups = [self.ranking("layout.foretime", name)[0] for name in (file, "packed.foretime")]
            self.assertEqual(groups[0], groups[1])
        self.assertEqual(groups[0]["group"], "layouts")
        ranked = groups[0]["ranking"]
        self.assertEqual(sorted(one["candidate"] for one in ranked), [0, 1])
        self.assertLessEqual(ranked[0]["score"], ranked[1]["score"])
        self.assertTrue(all(one["predicted_runtime"] > 0 for one in ranked))
        rows = self.rows_of(self.rank("layout.foretime", "layouts.pb").stdout)
        self.assertEqual(
            [(int(row["candidate"]), float(row["score"])) for row in rows],
            [(one["candidate"], one["score"]) for one in ranked],
        )
        self.assertEqual([row["rank"] for row in rows], ["0", "1"])
        self.assertEqual(len(self.rank("layout.foretime", "layouts.pb", "--top", 1, "-o", "out.csv").stdout), 0)
        self.assertEqual(len((self.folder / "out.csv").read_text().splitlines()), 2)
        line = self.rank(
            "layout.foretime", "layouts.pb", "--format", "submission", "--collection", "layout:xla:random"
        ).stdout
        self.assertEqual(
            line.splitlines()[1], "layout:xla:random:layouts," + ";".join(str(one["candidate"]) for one in ranked)
        )
        self.assertIn(
            "--collection", self.rank("layout.foretime", "layouts.pb", "--format", "submission", code=3).stderr
        )

        self.write("tiles.pb", TILES)
        groups = self.ranking("tile.foretime", "tiles.pb")
        self.assertEqual([group["group"] for group in groups], ["tiles_a", "tiles_b"])
        self.assertIn("tiles.pb", self.rank("layout.foretime", "tiles.pb", code=3).stderr)
        groups = self.ranking("trees.foretime", SAMPLES / "C1.npz", SAMPLES / "C3.npz", "--top", 3)
        self.assertEqual([(group["group"], len(group["ranking"])) for group in groups], [("C1", 3), ("C3", 3)])
        self.assertEqual(len(self.ranking("loops.foretime", SAMPLES / "C1.npz", "--top", 2)[0]["ranking"]), 2)

    def test_candidates_are_what_the_runs_of_a_file_are(self):
        module = self.read("module.pb")
        rows = [[[(1, 0)], [(0, 1), (1, 0)], [(0, 1), (1, 0), (0,)]], [[(0, 1)], [], [(1, 0)]], [[], [], []]]
        self.write("runs.pb", tuning(module, [layout_run(row, 10 + i) for i, row in enumerate(rows)], NODES))
        own = {one["candidate"]: one["score"] for one in self.ranking("layout.foretime", "runs.pb")[0]["ranking"]}
        self.candidates(
            [
                {"id": f"c{i}", "layouts": {str(node): tensors for node, tensors in zip(NODES, row)}}
                for i, row in enumerate(rows)
            ]
        )
        given = json.loads(self.rank("layout.foretime", "module.pb", "--candidates", "candidates.json").stdout)
        self.assertEqual(given[0]["group"], "module")
        self.assertEqual({one["candidate"]: one["score"] for one in given[0]["ranking"]}, own)
        self.assertEqual(
            [one["id"] for one in given[0]["ranking"]], [f"c{one['candidate']}" for one in given[0]["ranking"]]
        )
        scores = [one["score"] for one in given[0]["ranking"]]
        self.assertEqual(scores, sorted(scores))
        # By names, with %, flat, in the file of the runs itself, as CSV, and a part.
        self.candidates(
            [{"layouts": {"convolution.14": [1, 0] + 16 * [-1], "%dot.15": [[0, 1], [1, 0]], "reshape.16": rows[0][2]}}]
        )
        self.assertEqual(
            self.ranking("layout.foretime", "module.pb", "--candidates", "candidates.json")[0]["ranking"][0]["score"],
            own[0],
        )
        self.assertEqual(
            self.ranking("layout.foretime", "runs.pb", "--candidates", "candidates.json")[0]["ranking"][0]["score"],
            own[0],
        )
        out = self.rank("layout.foretime", "module.pb", "--candidates", "candidates.json", "--format", "csv").stdout
        self.assertEqual(len(out.splitlines()), 2)

        arrays = numpy.full((3, 3, 18), -1, numpy.float32)
        for c, row in enumerate(rows):
            for j, tensors in enumerate(row):
                for t, dims in enumerate(tensors):
                    arrays[c, j, 6 * t : 6 * t + len(dims)] = dims
        for kind in (numpy.float32, numpy.float64, numpy.int8, numpy.int64):
            for order in ("C", "F"):
                numpy.savez(
                    self.folder / "candidates.npz",
                    node_config_feat=numpy.asarray(arrays.astype(kind), order=order),
                    node_config_ids=numpy.array(NODES),
                )
                given = self.ranking("layout.foretime", "module.pb", "--candidates", "candidates.npz", "--top", 2)[0][
                    "ranking"
                ]
                self.assertEqual(
                    [(one["candidate"], one["score"]) for one in given], sorted(own.items(), key=lambda one: one[1])[:2]
                )

    def test_tiles(self):
        bounds = [(4, 8), (2,), (1, 2, 3, 4, 5, 6, 7)]
        self.write(
            "runs.pb",
            tuning(self.read("module.pb"), [tile_run(one, 20 + i, default=i == 0) for i, one in enumerate(bounds)]),
        )
        own = {one["candidate"]: one["score"] for one in self.ranking("tile.foretime", "runs.pb")[0]["ranking"]}
        rows = []
        for one in bounds:
            product = 1
            for bound in one:
                product *= bound
            rows.append(8 * [0] + (list(one) + 6 * [0])[:6] + [sum(one), product] + 8 * [0])
        self.candidates([{"config": row} for row in rows[:2]] + [{"id": 3, "config": {"output_bounds": bounds[2]}}])
        given = self.ranking("tile.foretime", "module.pb", "--candidates", "candidates.json")[0]["ranking"]
        self.assertEqual({one["candidate"]: one["score"] for one in given}, own)
        self.assertEqual([one["id"] for one in given if "id" in one], ["3"])
        numpy.savez(self.folder / "candidates.npz", config_feat=numpy.array(rows, numpy.float32))
        given = self.ranking("tile.foretime", "module.pb", "--candidates", "candidates.npz")[0]["ranking"]
        self.assertEqual({one["candidate"]: one["score"] for one in given}, own)

    def test_candidates_that_do_not_fit(self):
        def refused(
            text, *arguments, bundle="layout.foretime", graph="module.pb", candidates="candidates.json", code=3
        ):
            self.assertIn(text, self.rank(bundle, graph, "--candidates", candidates, *arguments, code=code).stderr)

        for content, text in (
            ("{", "candidates.json: no JSON"),
            ({}, "candidates.json: without candidates"),
            ({"candidates": [], "x": 1}, "candidates.json: "),
            (
                {"candidates": [{"layouts": {"x": []}}]},
                "candidates.json: candidates[0]: layouts: x: not an instruction of the module",
            ),
            (
                {"candidates": [{"layouts": {}}, {"layouts": {"6": [[0, "a"]]}}]},
                'candidates.json: candidates[1]: layouts: 6: output: "a", expected a whole number, -1 … 127',
            ),
            (
                {"candidates": [{"config": []}]},
                "candidates[0]: config: unknown field of a candidate, expected id and layouts",
            ),
        ):
            self.write("candidates.json", content)
            refused(text)
        refused("none.json: cannot be read", candidates="none.json")
        refused("expected candidates as .json or .npz", candidates="module.pb")
        numpy.savez(self.folder / "bad.npz", node_config_feat=numpy.zeros((2, 4, 18), numpy.float32))
        refused(
            "bad.npz: entry node_config_feat: shape (2, 4, 18), expected (candidates, 3, 18): the graph has 3 configurable nodes",
            candidates="bad.npz",
        )
        numpy.savez(
            self.folder / "bad.npz",
            node_config_feat=numpy.zeros((2, 3, 18), numpy.float32),
            node_config_ids=numpy.array([4, 6, 5]),
        )
        refused("bad.npz: entry node_config_ids: node 6 at place 1, expected 5", candidates="bad.npz")
        numpy.savez(self.folder / "bad.npz", node_config_feat=numpy.full((2, 3, 18), 0.5, numpy.float32))
        refused("candidate 0: 0.5 at position 0, expected a whole number, -128 … 127", candidates="bad.npz")
        numpy.savez(self.folder / "bad.npz", config_feat=numpy.zeros((2, 24), numpy.float32))
        refused("bad.npz", candidates="bad.npz")
        numpy.savez(self.folder / "bad.npz", config_feat=numpy.full((2, 24), numpy.nan, numpy.float32))
        refused("expected a finite number", candidates="bad.npz", bundle="tile.foretime")
        self.candidates([{"layouts": {}}])
        refused("candidates[0]: layouts: unknown field of a candidate, expected id and config", bundle="tile.foretime")
        refused(
            "--candidates needs a layout or tile model; trees.foretime is a model of trees",
            bundle="trees.foretime",
            code=2,
        )
        refused("2 graph files, expected one", "module.pb", code=2)
        self.write("tiles.pb", TILES)
        refused("tiles.pb: 3 modules, expected one whose candidates are ranked", graph="tiles.pb")

    def test_records(self):
        group = self.ranking("loops.foretime", "records.json", "--dags", "compute_dag.json")[0]
        self.assertEqual(group["group"], "[matmul,128,128,128]")
        self.assertEqual(sorted(int(one["id"]) for one in group["ranking"]), list(range(30)))
        rows = self.rows_of(
            self.rank("loops.foretime", "records.json", "--dags", "compute_dag.json", "--top", 5).stdout
        )
        self.assertEqual([row["group"] for row in rows], 5 * ["[matmul,128,128,128]"])
        self.assertEqual([float(row["score"]) for row in rows], [one["score"] for one in group["ranking"][:5]])

        # As packed, costs or not, compressed, over two files, beside what cannot be scored.
        self.run_foretime("data", "pack-records", "-o", "packed.foretime", "records.json", "--dags", "compute_dag.json")
        packed = self.ranking("loops.foretime", "packed.foretime")[0]
        known = {one["id"]: one["score"] for one in group["ranking"]}
        for one in packed["ranking"]:
            self.assertAlmostEqual(known[one["id"]], one["score"], delta=1e-5)
        lines = self.read("records.json").decode().splitlines()
        bare = json.loads(lines[0])
        del bare["r"]
        self.write(
            "more.json.gz", gzip.compress("\n".join([json.dumps(bare), "nonsense", "# no record", lines[1]]).encode())
        )
        done = self.rank(
            "loops.foretime", "records.json", "more.json.gz", "--dags", "compute_dag.json", "--format", "json"
        )
        self.assertIn("more.json.gz: 1 lines skipped, the first: more.json.gz:2: no JSON", done.stderr)
        both = {one["id"]: one["score"] for one in json.loads(done.stdout)[0]["ranking"]}
        self.assertEqual(len(both), 32)
        self.assertAlmostEqual(both["more:0"], both["records:0"], delta=1e-6)
        self.assertAlmostEqual(both["more:3"], both["records:1"], delta=1e-6)

        other = lines[0].replace("128, 128, 128", "64, 64, 64")
        self.write("other.json", "\n".join([other, lines[1]]))
        done = self.rank("loops.foretime", "other.json", "--dags", "compute_dag.json", "--format", "json")
        self.assertEqual(len(json.loads(done.stdout)), 1)
        self.assertIn(
            'compute_dag.json: 1 workloads of the records are not in it, the first: ["matmul", 64, 64, 64]', done.stderr
        )
        self.write("other.json", other)
        self.expect_message(self.rank("loops.foretime", "other.json", "--dags", "compute_dag.json", code=3).stderr)
        self.assertIn("give --dags FILE", self.rank("loops.foretime", "records.json", code=2).stderr)
        self.write("bad.json", "{}")
        self.assertIn(
            "bad.json:1: workload_key", self.rank("loops.foretime", "records.json", "--dags", "bad.json", code=3).stderr
        )
        self.expect_message(self.rank("trees.foretime", "tree.json", "--dags", "bad.json", code=2).stderr)

        # Patterns, and files that hold nothing known; where nothing can be scored nothing is ranked.
        dags = ("--dags", "compute_dag.json")
        self.assertEqual(
            self.rank("loops.foretime", "rec*s.json", *dags).stdout,
            self.rank("loops.foretime", "records.json", *dags).stdout,
        )
        self.expect_message(self.rank("loops.foretime", "non*.json", *dags, code=3).stderr, "non*.json")
        self.write("empty.jsonl", "")
        self.expect_message(self.rank("loops.foretime", "empty.jsonl", *dags, code=3).stderr, "empty.jsonl")
        split = json.loads(lines[1])
        split["i"][1][1] = [["SP", 2, 0, 127, [1, 1, 1], 1]]
        self.write("unfit.json", json.dumps(split))
        done = self.rank("loops.foretime", "unfit.json", *dags, code=3)
        self.expect_message(done.stderr, "unfit.json")
        self.assertIn("1 of 1 programs not scored, the first: unfit.json:1", done.stderr)
        self.assertEqual(done.stdout, "")
        rows = self.rows_of(self.rank("loops.foretime", "packed.foretime", "unfit.json", *dags).stdout)
        self.assertEqual((len(rows), sum(row["score"] == "inf" for row in rows)), (31, 1))
        self.write("machine.yaml", "name: m\nhardware: {vector_bytes: 32}\n")
        for file in ("tree.json", "packed.foretime"):
            done = self.rank("loops.foretime", file, "--targets", "machine.yaml", code=2)
            self.expect_message(done.stderr)

    def test_syntax_trees(self):
        for bundle in ("trees.foretime", "loops.foretime"):
            group = self.ranking(bundle, "tree.json")[0]
            self.assertEqual((group["group"], [one["id"] for one in group["ranking"]]), ("tree", ["tree.json"]))
        tree = json.dumps(json.loads(self.read("tree.json")))
        lines = [
            json.dumps({"id": "a", "workload": "w", "before": tree, "after": tree}),
            json.dumps({"id": "b", "workload": "w", "before": tree, "after": "{}"}),
        ]
        self.write("trees.jsonl", "\n".join(lines))
        ranked = self.ranking("trees.foretime", "trees.jsonl", "--member", "before")[0]
        self.assertEqual((ranked["group"], sorted(one["id"] for one in ranked["ranking"])), ("w", ["a", "b"]))
        done = self.rank("trees.foretime", "trees.jsonl", "--member", "after", "--format", "json")
        self.assertIn("w: 1 of 2 programs not scored, the first: ", done.stderr)
        self.assertEqual([one["score"] is None for one in json.loads(done.stdout)[0]["ranking"]], [False, True])
        self.expect_message(self.rank("trees.foretime", "trees.jsonl", code=3).stderr)

    def test_bundles_and_options_that_do_not_fit(self):
        content = self.read("layout.foretime")
        for damaged in (content[:1000], b"", content[:100] + b"\0" + content[101:], self.read("module.pb")):
            self.write("damaged.foretime", damaged)
            self.assertIn("damaged.foretime", self.rank("damaged.foretime", "module.pb", code=3).stderr)
        self.expect_message(self.rank("none.foretime", "module.pb", code=3).stderr, "none.foretime")
        self.rank("layout.foretime", code=2)
        self.expect_message(self.rank("layout.foretime", "module.pb", "--ensemble", "x", code=2).stderr)
        self.expect_message(self.rank("layout.foretime", "module.pb", "--dags", "x", code=2).stderr)
        self.expect_message(self.rank("layout.foretime", "module.pb", "--member", "x", code=2).stderr)
        self.expect_message(self.rank("layout.foretime", "module.pb", "-o", "none/out.csv", code=2).stderr)

    def test_without_libtorch(self):
        """The light program ranks by itself."""
        linked = subprocess.run(["ldd", FORETIME], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("torch", linked)
        traced = subprocess.run(
            [FORETIME, "rank", "layout.foretime", "module.pb"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**environment(), "LD_DEBUG": "libs"},
        )
        self.assertEqual(traced.returncode, 0)
        self.assertNotIn("libtorch", traced.stderr)
