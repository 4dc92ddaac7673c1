"""Whatever is wrong with the input, the program says what and where, and exits with the code that the README promises."""
import gzip
import io
import itertools
import os
import subprocess
import unittest
import zipfile

try:
    import numpy as np
except ImportError:
    np = None

from program import FORETIME, LIMIT, SAMPLES, SOURCE, ProgramTest, environment, flip_byte, wait_until


# Settings of a training on one layout file.
LAYOUT = dict(
    data__format="layout",
    data__train="graph.npz",
    data__test="[]",
    model__type="residual_gcn",
    loss__type="listmle",
    loss__standardize_target="false",
    loss__target="runtime",
    data__holdout=0,
    trainer__metric="valid/kendall_tau",
)


def layout_graph():
    """A small valid layout file."""
    nodes, configs, configurable = 6, 8, 2
    rng = np.random.default_rng(1)
    return {
        "edge_index": np.array([[1, 0], [2, 1], [3, 2], [4, 2], [5, 4]], np.int64),
        "node_feat": rng.random((nodes, 140), np.float32),
        "node_opcode": np.array([1, 2, 3, 4, 5, 6], np.uint8),
        "node_config_feat": rng.integers(-1, 5, (configs, configurable, 18)).astype(np.float32),
        "node_config_ids": np.array([2, 4], np.int64),
        "node_splits": np.array([[0, 3, 6]], np.int64),
        "config_runtime": np.arange(100, 100 + configs, dtype=np.int64),
    }


@unittest.skipIf(np is None, "needs python3-numpy")
class BadDataTest(ProgramTest):
    runs = itertools.count()

    def attempt(self, expected, change=None, code=3, raw=None, named="graph.npz"):
        """Trains on one damaged file and looks for `expected` and the file's name in the message."""
        path = self.folder / "graph.npz"
        members = layout_graph()
        if change:
            change(members)
        np.savez_compressed(path, **members)
        if raw:
            path.write_bytes(raw(path.read_bytes()))
        done = self.train(
            code=code,
            **LAYOUT,
            data__root=self.folder,
            model__readout="[mean]",
            model__features__transform="minmax",
            run__directory=self.folder / f"run{next(self.runs)}",
        )
        if code:
            self.assertIn(expected, done.stderr)
            self.assertIn(named, done.stderr)
            self.assertNotIn("terminate", done.stderr)
        return done

    def test_the_valid_file_trains(self):
        self.attempt("", code=0)

    def test_half_floats_and_run_times_that_are_whole_floats_are_read(self):
        self.attempt(
            "",
            lambda m: m.update(
                node_feat=m["node_feat"].astype("<f2"),
                node_config_feat=m["node_config_feat"].astype(">f2"),
                config_runtime=m["config_runtime"].astype(float),
            ),
            code=0,
        )
        values = self.json_of("data", "inspect", "graph.npz", "--format", "layout", "--json")[0]
        self.assertEqual((values["runtimes"]["min"], values["runtimes"]["max"]), (100, 107))
        self.attempt(
            "entry config_runtime: 50.25 at candidate 0, expected whole nanoseconds; normalised run times have no unit",
            lambda m: m.update(config_runtime=m["config_runtime"] / 2 + 0.25),
        )

    def test_damaged_files(self):
        for expected, damage in (
            ("node_opcode", lambda m: m.pop("node_opcode")),
            ("node_feat", lambda m: m.update(node_feat=m["node_feat"].astype("<U3"))),
            ("node_config_feat", lambda m: m.update(node_config_feat=m["node_config_feat"][:, :, :17])),
            ("edge_index", lambda m: m["edge_index"].__setitem__((0, 0), 6)),
            ("node_config_ids", lambda m: m["node_config_ids"].__setitem__(1, 6)),
            ("node_feat", lambda m: m["node_feat"].__setitem__((3, 7), np.nan)),
            ("config_runtime", lambda m: m["config_runtime"].__setitem__(3, 0)),
        ):
            with self.subTest(expected):
                self.attempt(expected, damage)
        self.attempt("measured run times", lambda m: m["config_runtime"].fill(0), named="graph")
        for expected, raw in (
            ("graph.npz", lambda data: data[: len(data) // 2]),
            ("graph.npz", lambda data: b"hello"),
            ("node_config_feat", lambda data: self.rewrite_header(data, "node_config_feat", (8_000_000, 2, 18))),
            ("node_config_feat", lambda data: self.rewrite_header(data, "node_config_feat", (2**62, 2**62, 18))),
        ):
            with self.subTest(expected):
                self.attempt(expected, raw=raw)

    def rewrite_header(self, data, member, shape):
        """The file, with the NPY header of one entry claiming another shape."""
        source, out = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
            for name in source.namelist():
                content = source.read(name)
                if name == member + ".npy":
                    length = int.from_bytes(content[8:10], "little")
                    header = eval(content[10 : 10 + length])  # numpy wrote it
                    header["shape"] = shape
                    text = repr(header).encode()
                    text += b" " * ((-(len(text) + 11)) % 64) + b"\n"
                    content = content[:8] + len(text).to_bytes(2, "little") + text + content[10 + length :]
                target.writestr(name, content)
        return out.getvalue()

    def test_ranks_that_see_different_data(self):
        # Rank 1 finds another file under the same path: its working folder differs.
        for name in ("one", "two"):
            (self.folder / name).mkdir()
            members = layout_graph()
            members["config_runtime"] = members["config_runtime"] + (name == "two")
            np.savez_compressed(self.folder / name / "graph.npz", **members)
        script = self.folder / "rank.sh"
        self.empty_settings()
        settings = self.settings(**LAYOUT, data__root=".")
        quoted = " ".join(f"'{s}'" for s in settings)
        script.write_text(
            f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] && cd {self.folder}/one || cd {self.folder}/two\n'
            f"exec {FORETIME} train --quiet {self.folder}/settings.yaml {quoted}\n"
        )
        script.chmod(0o755)
        done = subprocess.run(
            ["mpirun", "-n", "2", str(script)], env=environment(), capture_output=True, text=True, timeout=LIMIT
        )
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("ranks see different data", done.stderr)


class PathsTest(ProgramTest):
    def test_paths_that_cannot_be_looked_at_are_named(self):
        (self.folder / "loop").symlink_to("loop")
        quick, long = SOURCE / "configs/quickstart.yaml", "x" * 300
        for path in ("loop", "loop/x", long):
            for command in (
                ("data", "inspect", path),
                ("data", "pack-table", path, "-o", "o.foretime"),
                ("config", path),
                ("submit", path),
                ("rank", "x86-cpu", path),
                ("rank", path, SAMPLES / "C3.npz"),
                ("export", path, "o.foretime"),
                ("evaluate", path),
                ("train", path),
                ("train", quick, f"data.root={path}"),
                ("train", quick, f"run.directory={path}"),
                ("history", path),
                ("finetune", "x86-cpu", path, "-o", "o.foretime"),
                ("experiment", path),
                ("plan", path),
                ("board", "--runs", path, "--port", "0"),
                ("status", "--runs", path),
            ):
                with self.subTest(command=command[:2], path=path[:6]):
                    done = subprocess.run(
                        [FORETIME, *map(str, command)],
                        cwd=self.folder,
                        env=environment(),
                        capture_output=True,
                        text=True,
                        timeout=LIMIT,
                    )
                    self.assertIn(done.returncode, (2, 3, 4, 74), done.stderr)
                    self.assertNotIn("filesystem error", done.stderr)


class OtherFilesTest(ProgramTest):
    """Files of neighbours, given to the command that looks most apt: one sentence says what each is, and the way forward."""

    AUTOTVM = '# tuned\n{"input": ["llvm", "dense.x86", [], {}], "config": {"index": 3}, "result": [[1e-05], 0, 0.5, 1.6e9], "version": 0.2}\n'
    METASCHEDULE = '[0, [[[["GetBlock", [], ["C", "main"], ["b0"]]], []], [0.1], {"kind": "llvm"}, []]]\n'
    HLO_TEXT = "HloModule jit_f\n\nENTRY main.5 {\n  ROOT p.1 = f32[2]{0} parameter(0)\n}\n"
    TRITON = '{"key": [512], "configs_timings": [[{"kwargs": {"BLOCK_M": 128}, "num_warps": 4}, [0.02, 0.019, 0.021]]]}'

    def test_are_named_by_every_command_that_reads_data(self):
        dags = SOURCE / "samples/ansor/dags.jsonl.gz"
        commands = {
            "inspect": ("data", "inspect", "{}"),
            "pack": ("data", "pack", "-o", "o.foretime", "{}", "--format", "layout"),
            "pack-records": ("data", "pack-records", "-o", "o.foretime", "{}", "--dags", dags),
            "pack-tir": ("data", "pack-tir", "-o", "o.foretime", "{}"),
            "pack-table": ("data", "pack-table", "-o", "o.foretime", "{}"),
            "verify": ("data", "verify", "{}"),
            "rank": ("rank", "x86-cpu", "{}"),
            "train": (
                "train",
                SOURCE / "configs/quickstart.yaml",
                "data.root=.",
                "data.train=[{}]",
                "run.directory=r",
                "--quiet",
            ),
            "bundle": ("bundle", "show", "./{}"),
            "serve": ("serve", "./{}", "--port", "0"),
        }
        files = {
            "autotvm.log": (self.AUTOTVM, "an AutoTVM log", "auto_scheduler"),
            "database_tuning_record.json": (
                self.METASCHEDULE,
                "a database of MetaSchedule",
                "tools/data/export_metaschedule.py",
            ),
            "f.autotune.json": (self.TRITON, "Triton's autotuning cache", "pack-table"),
            "array.json": ('[{"i": []}]', "a JSON array", "jq -c"),
            "empty.json": ("", "an empty file", "copied completely"),
            "pointer.npz": ("version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer", "git lfs pull"),
            "page.npz": ("<!DOCTYPE html><html>", "an HTML page", "login"),
        }
        for name, (content, what, way) in files.items():
            self.write(name, content)
            for command in commands.values():
                with self.subTest(name=name, command=command[:2]):
                    done = self.run_foretime(*(str(word).replace("{}", name) for word in command), code=3)
                    self.assertRegex(done.stderr, rf"{name}: found {what}\b.*, expected ")
                    self.assertIn(way, done.stderr)

    def test_hlo_text_is_read_wherever_protobuf_is(self):
        for name in ("module_0001.before_optimizations.txt", "text.pb", "module.hlo"):
            self.write(name, self.HLO_TEXT)
            self.assertIn("1", self.run_foretime("data", "inspect", name).stdout)
            self.run_foretime("data", "pack", "-o", "hlo.foretime", name)
            done = self.run_foretime(
                "data",
                "pack-records",
                "-o",
                "o.foretime",
                name,
                "--dags",
                SOURCE / "samples/ansor/dags.jsonl.gz",
                code=3,
            )
            self.expect_message(done.stderr)
        self.write("cut.txt", self.HLO_TEXT[:60])
        self.expect_message(self.run_foretime("data", "inspect", "cut.txt", code=3).stderr, "cut.txt: line 4")

    def test_what_is_of_another_command_names_it(self):
        samples = SOURCE / "samples"
        self.write("t.csv", "a,runtime\n1,2\n")
        self.write("dags.txt", "A = PLACEHOLDER [4, 4]\n")
        for command, what, way in (
            (("data", "inspect", "t.csv"), "a table", "foretime data pack-table packs it"),
            (("data", "inspect", samples / "ansor/dags.jsonl.gz"), "a table of compute DAGs", "--dags"),
            (("data", "inspect", "dags.txt"), "compute DAGs as TVM prints them", "export_dags.py"),
            (
                ("data", "pack-tir", "-o", "o.foretime", samples / "ansor/records.jsonl.gz"),
                "tuning records",
                "pack-records",
            ),
            (("data", "pack-table", "-o", "o.foretime", SAMPLES / "C1.npz"), "a .npz archive", "takes? it as it is"),
            (("rank", SAMPLES / "C1.npz", "t.csv"), "a .npz archive", ""),
        ):
            with self.subTest(command):
                self.assertRegex(self.run_foretime(*command, code=3).stderr, f"found {what}, expected .*{way}")

    def test_records_behind_a_byte_order_mark_are_read(self):
        with gzip.open(SOURCE / "samples/ansor/records.jsonl.gz") as file:
            lines = b"".join(next(file) for _ in range(3))
        path = self.write("marked.json", b"\xef\xbb\xbf" + lines)
        self.assertIn("3 tuning records", self.run_foretime("data", "inspect", path).stdout)
        done = self.run_foretime(
            "data",
            "pack-records",
            "-o",
            "o.foretime",
            path,
            "--dags",
            SOURCE / "samples/ansor/dags.jsonl.gz",
            "--least",
            "1",
        )
        self.assertIn("3 programs", done.stdout)
        self.assertNotIn("no records", done.stdout)
        self.write("wide.json", lines.decode().encode("utf-16"))
        self.expect_message(self.run_foretime("data", "inspect", "wide.json", code=3).stderr)

    def test_a_file_without_any_record_is_an_error(self):
        path = self.write("no.json", '{"i": 1}\n# the end\n')
        done = self.run_foretime("data", "inspect", path, code=3)
        self.expect_message(done.stderr, "no.json")

    def test_models_and_settings(self):
        bundle = SOURCE / "pretrained/x86-cpu.foretime"
        self.expect_message(self.run_foretime("evaluate", bundle, code=3).stderr)
        (self.folder / "run").mkdir()
        self.write("run/config.yaml", "{}")
        for command in (("bundle", "show", "./run"), ("serve", "./run", "--port", "0")):
            self.expect_message(self.run_foretime(*command, code=3).stderr, "./run")
        cut = self.write("cut.foretime", bundle.read_bytes()[:-1000])
        self.assertIn("truncated: ", self.run_foretime("bundle", "show", cut, code=3).stderr)
        for path in (
            SAMPLES / "C1.npz",
            self.write("cut.foretime", bundle.read_bytes()[:-2000000]),
            SOURCE / "samples/ansor/records.jsonl.gz",
        ):
            self.expect_message(self.run_foretime("train", path, code=2).stderr, path.name)
        self.write("tab.yaml", "data:\n\tformat: tile\n")
        self.expect_message(self.run_foretime("train", "tab.yaml", code=2).stderr, "tab.yaml:2")


class ChangingFileTest(ProgramTest):
    # Promise storage/files-cut
    def test_a_packed_file_that_is_cut_while_it_is_mapped(self):
        self.run_foretime(
            "data", "pack", "-o", "all.foretime", SAMPLES / "C1.npz", SAMPLES / "C12.npz", "--format", "programs"
        )
        training = self.start_training(data__train=self.folder / "all.foretime", data__test="[]", trainer__steps=100000)
        try:
            self.assertTrue(
                wait_until(lambda: (self.folder / "run/metrics.jsonl").exists() or training.poll() is not None)
            )
            os.truncate(self.folder / "all.foretime", 4096)
            _, error = training.communicate(timeout=LIMIT)
        finally:
            training.kill()
        self.assertEqual(training.returncode, 3, error)
        self.assertIn("all.foretime: was cut while it was read", error)


class BadSettingsTest(ProgramTest):
    def test_unknown_key_names_the_nearest(self):
        path = self.write("settings.yaml", "optimizer:\n  learning_rat: 0.1\n")
        done = self.run_foretime("train", path, code=2)
        self.assertIn("learning_rate", done.stderr)
        self.assertIn("settings.yaml:2", done.stderr)

    def test_settings_that_are_refused(self):
        (self.folder / "empty").mkdir()
        for expected, code, changes in (
            ("optimizer.learning_rate", 2, {"optimizer__learning_rate": -1}),
            ("empty", 3, {"data__root": self.folder, "data__train": "empty"}),
            ("data.train", 3, {"data__train": "[]"}),
            ("nothing.npz", 3, {"data__train": "nothing.npz"}),
            ("configurable", 2, {"model__readout": "[configurable_mean]"}),
        ):  # which the data lack
            with self.subTest(expected):
                self.assertIn(expected, self.train(code=code, **changes).stderr)
        self.assertIn("nowhere.yaml", self.run_foretime("train", "nowhere.yaml", code=2).stderr)

    def test_no_subcommand(self):
        self.run_foretime(code=2)

    def test_bad_settings_on_two_ranks_end_both(self):
        self.train(ranks=2, code=2, model__readout="[configurable_mean]")

    def test_cuda_where_there_is_none(self):
        done = self.run_foretime("doctor")
        if "none that LibTorch can use" not in done.stdout:
            self.skipTest("this machine has a GPU")
        self.assertRegex(
            done.stdout,
            "GPU +none that LibTorch can use, which was built with(out)? CUDA\n +-> training runs on the CPU",
        )
        self.train(code=4, trainer__device="cuda")
        # Without NCCL's header at build time the message says so; with it, that there is no GPU.
        self.assertRegex(self.train(code=4, trainer__device="auto", comm__backend="nccl").stderr, "no GPU|no NCCL")
        self.expect_message(self.train(code=2, trainer__device="cpu", comm__backend="nccl").stderr)
        self.train()
        evaluated = self.run_foretime("evaluate", "run", "--set", "trainer.device=cuda", code=4)
        self.assertIn("trainer.device: cuda, but LibTorch finds no GPU", evaluated.stderr)


class BadCheckpointTest(ProgramTest):
    def test_flipped_byte(self):
        self.train()
        flip_byte(self.folder / "run/checkpoints/step-00000006/model.safetensors")
        for done in (self.run_foretime("evaluate", "run", code=3), self.train(code=3, trainer__steps=8)):
            self.assertIn("model.safetensors", done.stderr)
            self.assertIn("CRC", done.stderr)

    def test_checkpoint_of_another_model(self):
        self.train()
        done = self.train(
            code=3, run__directory=self.folder / "other", model__hidden=24, checkpoint__resume=self.folder / "run"
        )
        self.expect_message(done.stderr)

    def test_run_directory_of_another_configuration(self):
        self.train()
        done = self.train(code=2, model__hidden=24)
        self.assertIn("hidden", done.stderr)
        self.train(model__hidden=24, run__overwrite="true")

    def test_files_of_another_kind(self):
        self.train()
        done = self.run_foretime("rank", "run", self.folder / "settings.yaml", code=3)
        self.assertIn("settings.yaml", done.stderr)
