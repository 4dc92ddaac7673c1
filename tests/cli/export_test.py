"""From a trained run to a bundle, of which every runtime gives the trainer's scores, or to a folder with its weights."""
import functools
import json
import subprocess
import sys

from program import SAMPLES, SOURCE, ProgramTest, flip_byte

CHECK = SOURCE / "tools" / "data" / "check_bundle.py"
SMALL = """
model: {type: gcn, hidden: 12, layers: 2, node_type_embedding: 4, readout: [mean, max], features: {transform: zscore}}
loss: {type: huber, target: log_runtime, standardize_target: true}
sampler: {groups_per_batch: 1, candidates_per_group: 6, samples_per_group: 2}
trainer: {steps: 4, eval_every: 0, device: cpu, threads: 1, log_every: 4}
"""
TREES = "data.format=programs", f"data.root={SAMPLES}", "data.train=[C1.npz]", "data.holdout=0.2"
LOOPS = (
    "data.format=programs",
    "data.representation=loops",
    f"data.root={SOURCE}/samples/ansor/trees",
    "data.train=[t08.npz]",
    "data.holdout=0.2",
)
LAYOUTS = (
    "data.format=layout",
    "data.root=.",
    "data.train=[synthetic_layout.npz]",
    "data.holdout=0.2",
    "loss.type=pairwise_hinge",
    "loss.standardize_target=false",
)


@functools.cache
def has_module(name):
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


class ExportTest(ProgramTest):
    def trained(self, *overrides):
        self.write("small.yaml", SMALL)
        self.run_foretime("train", "--quiet", "small.yaml", "run.directory=run", *overrides)
        return "run"

    def expect_equal_everywhere(self, graph, *overrides):
        """The run's ranking, libforetime's, NumPy's and TorchScript's."""
        run = self.trained(*overrides)
        self.run_foretime("export", run, "model.foretime", "--licence", "CC0-1.0")
        self.run_foretime("export", run, "model.pt")
        graph = str(graph)
        trained = {r["candidate"]: float(r["score"]) for r in self.ranking(run, graph)}
        bundled = {r["candidate"]: float(r["score"]) for r in self.ranking("model.foretime", graph)}
        self.assertEqual(trained.keys(), bundled.keys())
        scale = max(1.0, max(abs(score) for score in trained.values()))
        for candidate, score in trained.items():
            self.assertAlmostEqual(score, bundled[candidate], delta=1e-5 * scale, msg=candidate)
        for arguments in ((), ("--plain",), ("3", "1", "2")):
            self.plan_arrays("model.foretime", graph, "inputs.npz", *arguments)
            torchscript = ("--torchscript", "model.pt") if has_module("torch") else ()
            if not has_module("numpy"):
                self.skipTest("needs NumPy for tools/data/check_bundle.py")
            checked = subprocess.run(
                [sys.executable, CHECK, "model.foretime", "inputs.npz", *torchscript],
                cwd=self.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            self.assertIn("NumPy: ", checked.stdout)
        return self.json_of("bundle", "show", "model.foretime")

    def ranking(self, model, graph):
        text = self.run_foretime("rank", model, graph, "--format", "json").stdout
        (group,) = json.loads(text)
        return group["ranking"]

    def test_syntax_trees(self):
        manifest = self.expect_equal_everywhere(SAMPLES / "C1.npz", *TREES)
        self.assertEqual(manifest["licence"], "CC0-1.0")
        self.assertEqual(manifest["schema"]["representation"], "ast")
        self.assertEqual(manifest["architecture"]["type"], "gcn")
        self.assertIn("hidden: 12", manifest["architecture"]["settings"])
        self.assertIn("holdout/kendall_tau", manifest["metrics"])
        self.assertTrue(manifest["predicts_runtimes"])

    def test_pooled_trees(self):
        self.expect_equal_everywhere(SAMPLES / "C12.npz", *TREES, "model.type=tpgnn", "model.tpgnn.pool_ratio=0.5")

    def test_attention_and_members(self):
        self.expect_equal_everywhere(
            SAMPLES / "C1.npz", *TREES, "model.type=gat", "model.ensemble_size=2", "model.norm=layer"
        )

    def test_statement_costs(self):
        manifest = self.expect_equal_everywhere(
            SOURCE / "samples/ansor/trees/t08.npz",
            *LOOPS,
            "model.type=statement_cost",
            "model.statement_cost.context=true",
            "model.ensemble_size=2",
        )
        self.assertEqual(manifest["schema"]["representation"], "loops")

    def test_layouts(self):
        self.synthesize("synthetic_layout.npz", 80, 9, 60, 3)
        manifest = self.expect_equal_everywhere(
            self.folder / "synthetic_layout.npz",
            *LAYOUTS,
            "model.type=sage",
            "model.layout_gate=true",
            "model.candidate_norm=true",
            "model.features.layout=embedding",
            "model.readout=[configurable_sum, decision_sum, mean]",
        )
        self.assertTrue(manifest["compares_candidates"])
        self.assertFalse(manifest["predicts_runtimes"])

    def test_what_cannot_be_exported(self):
        self.synthesize("synthetic_layout.npz", 300, 9, 40, 3)
        run = self.trained(*LAYOUTS, "sampler.max_segment_nodes=100", "model.readout=[sum]")
        refused = self.run_foretime("export", run, "model.foretime", code=2)
        self.assertIn("segments.stale", refused.stderr)
        self.assertFalse((self.folder / "model.foretime").exists())

    def test_an_earlier_export_is_replaced(self):
        run = self.trained(*TREES)
        self.run_foretime("export", run, "model.foretime")
        first = (self.folder / "model.foretime").read_bytes()
        self.run_foretime("export", run, "model.foretime")
        self.assertEqual((self.folder / "model.foretime").read_bytes(), first)
        self.write("cut.foretime", first[:-5])
        self.assertIn("cut.foretime", self.run_foretime("rank", "cut.foretime", str(SAMPLES / "C1.npz"), code=3).stderr)

    def test_what_killed_exports_left_is_removed_by_the_next(self):
        run = self.trained(*TREES)
        (self.folder / "best.foretime-tmp").mkdir()
        (self.folder / "best.old-77.foretime-tmp/x").mkdir(parents=True)
        for out in ("model.foretime", "model.pt"):
            self.write(f"{out}.77-0.foretime-tmp", "half")
        for out in ("best", "model.foretime", "model.pt"):
            self.run_foretime("export", run, out)
        self.assertEqual([path.name for path in self.folder.glob("*.foretime-tmp")], [])


class ExportToAFolderTest(ProgramTest):
    def test_export_of_a_run(self):
        self.train(trainer__eval_every=2, trainer__steps=5)
        best = json.loads((self.folder / "run/checkpoints/best.json").read_text())["step"]
        self.run_foretime("export", "run", "out")
        self.assertEqual(
            (self.folder / "out/model.safetensors").read_bytes(), self.checkpoint(best)["model.safetensors"]
        )
        for name in ("config.yaml", "data.json"):
            self.assertEqual((self.folder / "out" / name).read_bytes(), (self.folder / "run" / name).read_bytes())
        self.assertEqual(
            self.run_foretime("evaluate", "out", "--json").stdout, self.run_foretime("evaluate", "run", "--json").stdout
        )
        self.assertEqual(
            self.run_foretime("rank", "out", SAMPLES / "C1.npz").stdout,
            self.run_foretime("rank", "run", SAMPLES / "C1.npz").stdout,
        )
        self.run_foretime("export", "run/checkpoints/step-00000005", "out")
        self.assertEqual((self.folder / "out/model.safetensors").read_bytes(), self.checkpoint(5)["model.safetensors"])
        self.run_foretime("export", "out/", "again/")
        self.assertTrue((self.folder / "again/config.yaml").exists())

    # Promise mistakes/export-format
    def test_what_is_not_an_export_is_never_replaced(self):
        self.train()
        (self.folder / "mine").mkdir()
        self.write("mine/notes.txt", "keep")
        self.run_foretime("export", "run", "mine", "--force", code=2)
        self.assertEqual((self.folder / "mine/notes.txt").read_text(), "keep")
        self.run_foretime("export", "run", "settings.yaml", "--format", "checkpoint", "--force", code=2)
        # A run's own checkpoints, also the one that is exported, are no exports.
        before = self.checkpoint(6)
        for source in ("run", "run/checkpoints/step-00000006"):
            done = self.run_foretime("export", source, "run/checkpoints/step-00000006", "--force", code=2)
            self.expect_message(done.stderr)
        self.assertEqual(self.checkpoint(6), before)

    def test_a_folder_that_is_no_export_is_not_replaced(self):
        self.train()
        (self.folder / "out").mkdir()
        manifest = self.folder / "out/manifest.json"
        manifest.symlink_to(self.folder / "run/checkpoints/step-00000006/manifest.json")
        self.expect_message(self.run_foretime("export", "run", "out", "--force", code=2).stderr, "manifest.json")
        manifest.unlink()
        self.write("out/manifest.json", "{}")
        self.expect_message(self.run_foretime("export", "run", "out", "--force", code=2).stderr)

    def test_a_damaged_checkpoint_is_not_exported(self):
        self.train()
        flip_byte(self.folder / "run/checkpoints/step-00000006/model.safetensors", -1)
        self.assertIn("CRC", self.run_foretime("export", "run", "out", code=3).stderr)
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith("out")], [])
