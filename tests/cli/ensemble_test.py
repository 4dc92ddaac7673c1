"""Averaged weights and ensembles of checkpoints, as users ask for them."""
import json
import math

from program import SAMPLES, ProgramTest


class EnsembleTest(ProgramTest):
    def ranked(self, *checkpoints):
        """Predicted run times or scores of C11 by candidate."""
        others = [part for name in checkpoints[1:] for part in ("--ensemble", name)]
        rows = self.rows_of(self.run_foretime("rank", checkpoints[0], SAMPLES / "C11.npz", *others).stdout)
        return {int(row["candidate"]): row for row in rows}

    def test_members_are_joined_in_rank_and_evaluate(self):
        self.train(run__directory=self.folder / "a")
        self.train(
            run__directory=self.folder / "b", model__type="sage", model__hidden=8, model__features__transform="minmax"
        )
        self.train(
            run__directory=self.folder / "c",
            loss__type="listmle",
            loss__target="runtime",
            loss__standardize_target="false",
        )
        a, b, both = self.ranked("a"), self.ranked("b"), self.ranked("a", "b")
        self.assertEqual(set(both), set(a))
        for candidate, row in both.items():
            times = [float(one[candidate]["predicted_runtime"]) for one in (a, b)]
            self.assertAlmostEqual(float(row["predicted_runtime"]) / math.sqrt(times[0] * times[1]), 1, places=6)
        self.assertNotIn("predicted_runtime", next(iter(self.ranked("a", "b", "c").values())), "c only ranks")

        evaluated = self.json_of("evaluate", "a", "--ensemble", "b", "--ensemble", "c", "--json")
        self.assertEqual(
            [(member["checkpoint"], member["model"]) for member in evaluated["members"]],
            [("a", "gcn"), ("b", "sage"), ("c", "gcn")],
        )
        for member in evaluated["members"]:
            alone = self.json_of("evaluate", member["checkpoint"], "--json")
            self.assertEqual(member["metrics"], alone["metrics"])
            self.assertNotIn("members", alone)
        self.assertEqual({group["set"] for group in evaluated["groups"]}, {"holdout", "test"})
        on_two = self.json_of("evaluate", "a", "--ensemble", "b", "--ensemble", "c", "--json", ranks=2)
        for name, value in evaluated["metrics"].items():
            self.assertAlmostEqual(on_two["metrics"][name], value, places=9, msg=name)
        text = self.run_foretime(
            "evaluate", "a", SAMPLES / "C11.npz", "--ensemble", "b", "--rankings", "out.csv"
        ).stdout
        self.assertRegex(text, r"(?s)1\. gcn .*2\. sage .*ensemble ")
        rows = self.rows("out.csv")
        for row in rows:
            self.assertAlmostEqual(
                float(row["predicted_runtime"]) / float(both[int(row["candidate"])]["predicted_runtime"]), 1, places=6
            )

    def test_members_that_cannot_be_joined(self):
        self.train(run__directory=self.folder / "a")
        self.train(run__directory=self.folder / "seed", trainer__seed=2)
        self.train(run__directory=self.folder / "loops", data__representation="loops")
        done = self.run_foretime("evaluate", "a", "--ensemble", "seed")
        self.assertIn("skips the held-out candidates", done.stderr)
        self.assertNotIn("holdout:", done.stdout)
        self.assertIn("test:", done.stdout)
        for command in (["evaluate", "a"], ["rank", "a", SAMPLES / "C11.npz"]):
            done = self.run_foretime(*command, "--ensemble", "loops", code=3)
            self.assertIn("loops: was trained on tensor programs of", done.stderr)
            self.assertIn("data.representation loops", done.stderr)
        self.assertIn(
            "none: no such file or folder",
            self.run_foretime("rank", "a", SAMPLES / "C11.npz", "--ensemble", "none", code=3).stderr,
        )

    def test_averaged_weights_are_what_leaves_a_run(self):
        self.train(run__directory=self.folder / "plain")
        self.train(averaging__type="ema", averaging__decay=0.8)
        run, plain = self.checkpoint(6), self.checkpoint(6, "plain")
        self.assertIn("average.safetensors", run)
        self.assertEqual(run["model.safetensors"], plain["model.safetensors"], "training goes on with the last weights")
        final = json.loads((self.folder / "run/metrics.jsonl").read_text().splitlines()[-1])
        self.run_foretime("export", "run", "best")
        for name in ("run", "best"):
            metrics = self.json_of("evaluate", name, "--json", "--set", "trainer.threads=1")["metrics"]
            self.assertEqual(metrics, {key: value for key, value in final.items() if "/" in key})
        self.assertNotEqual(self.ranked("run"), self.ranked("plain"))
        path = self.folder / "best/average.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        self.assertIn("average.safetensors", self.run_foretime("evaluate", "best", code=3).stderr)
