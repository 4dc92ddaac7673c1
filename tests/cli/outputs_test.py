"""Which files commands replace: what they wrote themselves, and nothing else unless --force says so."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import numpy

from bundles import SAMPLE_FILES
from hlo_test import LAYOUTS
from program import HAS_BOARD, LIMIT, NO_BOARD, SAMPLES, SOURCE, ProgramTest, environment

ANSOR = SOURCE / "samples/ansor"
PROGRAMS = ("C1.npz", "--format", "programs")
RECORDS = ("records.json", "--dags", "compute_dag.json")
QUICK = ("--runs", 3, "--seconds", 0.001, "--copy-mib", 1)

# The command, where {} is what it writes; the name of that; an input of the command; whether it recognises its own files.
COMMANDS = {
    "pack": (("data", "pack", *PROGRAMS, "-o", "{}"), "out.foretime", "C1.npz", True),
    "pack-records": (("data", "pack-records", *RECORDS, "-o", "{}"), "out.foretime", "records.json", True),
    "pack-tir": (
        ("data", "pack-tir", "text.jsonl.gz", "--member", "before_lowering", "-o", "{}"),
        "out.foretime",
        "text.jsonl.gz",
        True,
    ),
    "pack-table": (
        ("data", "pack-table", "table.csv", "--runtime", "ms", "-o", "{}"),
        "out.foretime",
        "table.csv",
        True,
    ),
    "rank csv": (("rank", "trees.foretime", "C1.npz", "-o", "{}"), "out.csv", "C1.npz", True),
    "rank json": (
        ("rank", "trees.foretime", "C1.npz", "--format", "json", "-o", "{}"),
        "out.json",
        "trees.foretime",
        True,
    ),
    "rank submission": (
        (
            "rank",
            "layout.foretime",
            "layouts.pb",
            "--format",
            "submission",
            "--collection",
            "layout:xla:random",
            "-o",
            "{}",
        ),
        "out.csv",
        "layouts.pb",
        True,
    ),
    "add-machine": (
        ("bundle", "add-machine", "loops.foretime", "machine.yaml", "-o", "{}"),
        "out.foretime",
        "loops.foretime",
        True,
    ),
    "export": (("export", "run", "{}"), "out.foretime", "run/config.yaml", True),
    "export bundle": (("export", "trees.foretime", "{}"), "out.foretime", "trees.foretime", True),
    "torchscript": (("export", "run", "{}"), "out.pt", "run/config.yaml", True),
    "finetune": (
        ("finetune", "tuned.foretime", "C1.npz", "--steps", 1, "--take-worse", "-o", "{}"),
        "out.foretime",
        "tuned.foretime",
        True,
    ),
    "measure": (("target", "measure", *QUICK, "-o", "{}"), "out.yaml", None, True),
    "measure json": (("target", "measure", "--json", *QUICK, "-o", "{}"), "out.json", None, True),
    "evaluate": (("evaluate", "run", "--rankings", "{}"), "out.csv", "run/config.yaml", True),
}
if HAS_BOARD:
    COMMANDS["report"] = (("report", "run", "-o", "{}"), "out.html", "run/metrics.jsonl", True)
TEXT = {"rank csv", "rank json", "rank submission", "report", "measure", "measure json", "evaluate"}


class OutputsTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="foretime-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        subprocess.run([SAMPLE_FILES, cls.shared], check=True, timeout=LIMIT)
        shutil.copy(SAMPLES / "C1.npz", cls.shared)
        shutil.copy(ANSOR / "machine.yaml", cls.shared)
        shutil.copy(SOURCE / "samples/tir/resnet18_conv2d_save_json.jsonl.gz", cls.shared / "text.jsonl.gz")
        (cls.shared / "table.csv").write_text("size,ms\n1,2.0\n2,3.0\n")
        (cls.shared / "layouts.pb").write_bytes(LAYOUTS)
        first = cls("setUp")
        first.folder = cls.shared
        first.train(trainer__steps=2, run__directory="run")
        first.run_foretime("export", "run", "tuned.foretime")

    def setUp(self):
        super().setUp()
        os.rmdir(self.folder)
        shutil.copytree(self.shared, self.folder)

    def neighbours(self, name):
        """Puts one thing after another where the command writes, and yields what it is."""
        path = self.folder / name

        def replace(make):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            make()

        numpy.savez(self.folder / "measurements.npz", **{f"a{i}": numpy.arange(50) for i in range(3)})
        measurements = (self.folder / "measurements.npz").read_bytes()
        for what, make in {
            "measurements": lambda: path.write_bytes(measurements),
            "a bundle": lambda: shutil.copy(self.folder / "tile.foretime", path),
            "packed": lambda: shutil.copy(self.folder / "other.foretime", path),
            "records": lambda: shutil.copy(self.folder / "records.json", path),
            "a gzip file": lambda: path.write_bytes(gzip.compress(b"text")),
            "a table": lambda: path.write_text("group,rank,seconds\na,1,2\n"),
            "a script": lambda: path.write_text("#!/usr/bin/env python3\nprint('group,rank,candidate,id')\n"),
            "JSON": lambda: path.write_text(json.dumps([{"name": "x", "group": 1}], indent=2)),
            "HTML": lambda: path.write_text("<!doctype html>\n<title>Mine</title>\n"),
        }.items():
            replace(make)
            yield what
        replace(lambda: None)

    def packed(self):
        self.run_foretime("data", "pack", "C1.npz", "--format", "programs", "-o", "other.foretime")

    # Promise storage/outputs-replaced: without `--force` a command replaces only files of the kind that it writes, and
    # never its inputs
    def test_every_command_beside_every_neighbour(self):
        self.packed()
        kinds = {
            "packed": {"pack", "pack-records", "pack-tir", "pack-table"},
            "a bundle": {"add-machine", "export", "export bundle", "finetune"},
        }
        for name, (command, out, _, _) in COMMANDS.items():
            words = [out if word == "{}" else word for word in command]
            for what in self.neighbours(out):
                if name in kinds.get(what, ()):
                    continue
                with self.subTest(command=name, neighbour=what):
                    before = (self.folder / out).read_bytes()
                    done = self.run_foretime(*words, code=2)
                    self.assertIn(out, done.stderr)
                    self.assertIn("--force", done.stderr)
                    self.assertEqual((self.folder / out).read_bytes(), before)
                    self.assertEqual(done.stdout, "", "refused before any work")

    # Promise storage/outputs-replaced
    def test_own_files_are_replaced_and_empty_ones(self):
        for name, (command, out, _, recognised) in COMMANDS.items():
            with self.subTest(command=name):
                words = [out if word == "{}" else word for word in command]
                self.write(out, "")
                self.run_foretime(*words)
                self.assertGreater((self.folder / out).stat().st_size, 0)
                if recognised:
                    self.run_foretime(*words)
                else:
                    self.assertIn("--force", self.run_foretime(*words, code=2).stderr)
                    self.run_foretime(*words, "--force")
                (self.folder / out).unlink()

    def test_inputs_are_not_replaced(self):
        for name, (command, out, source, _) in COMMANDS.items():
            if source is None:
                continue
            original = (self.folder / source).read_bytes()
            suffix = pathlib.Path(out).suffix
            for kind in ("itself", "link", "hard link"):
                target = {"itself": source, "link": "link" + suffix, "hard link": "hard" + suffix}[kind]
                if kind == "itself" and name in ("report", "export", "torchscript"):
                    continue  # the name decides what is written there
                if kind == "link":
                    os.symlink(source, self.folder / target)
                if kind == "hard link":
                    os.link(self.folder / source, self.folder / target)
                with self.subTest(command=name, target=kind):
                    done = self.run_foretime(*[target if word == "{}" else word for word in command], code=2)
                    self.assertIn(target, done.stderr)
                    self.assertIn("--force", done.stderr)
                    self.assertEqual((self.folder / source).read_bytes(), original)
                if kind != "itself":
                    (self.folder / target).unlink()

    def test_a_collection_is_not_packed_into_itself(self):
        self.packed()
        before = (self.folder / "other.foretime").read_bytes()
        for pattern in ("other.foretime", "oth*.foretime"):
            done = self.run_foretime("data", "pack", pattern, "--format", "programs", "-o", "other.foretime", code=2)
            self.expect_message(done.stderr)
        self.assertEqual((self.folder / "other.foretime").read_bytes(), before)
        self.run_foretime("data", "pack", "other.foretime", "--format", "programs", "-o", "other.foretime", "--force")
        self.run_foretime("data", "verify", "other.foretime")

    def test_folders_and_devices(self):
        for name in COMMANDS:
            if name != "report":
                self.check_folder_and_pipe(name)

    @unittest.skipUnless(HAS_BOARD, NO_BOARD)
    def test_a_folder_and_a_pipe_for_a_report(self):
        self.check_folder_and_pipe("report")

    def check_folder_and_pipe(self, name):
        command, out, _, _ = COMMANDS[name]
        words = [out if word == "{}" else word for word in command]
        (self.folder / out).mkdir()
        with self.subTest(command=name, target="folder"):
            self.expect_message(self.run_foretime(*words, "--force", code=2).stderr)
        os.rmdir(self.folder / out)
        os.mkfifo(self.folder / out)
        with self.subTest(command=name, target="pipe"):
            if name in TEXT:
                reader = subprocess.Popen(["cat", out], cwd=self.folder, stdout=subprocess.PIPE)
                try:
                    self.run_foretime(*words)
                    self.assertTrue(reader.communicate(timeout=LIMIT)[0])
                finally:
                    reader.kill()
                    reader.wait()
            else:
                self.expect_message(self.run_foretime(*words, "--force", code=2).stderr)
        (self.folder / out).unlink()

    def test_open_files_are_written_to(self):
        rank = ("rank", "trees.foretime", "C1.npz", "-o")
        expected = self.run_foretime(*rank, "out.csv") and (self.folder / "out.csv").read_text()
        self.assertEqual(self.run_foretime(*rank, "/dev/stdout").stdout, expected)
        self.assertEqual(self.run_foretime(*rank, "/dev/null").stdout, "")
        self.assertFalse(pathlib.Path("/dev/null").is_file())
        self.write("log.txt", "before\n")
        with open(self.folder / "log.txt", "ab") as log:
            subprocess.run(
                [*self.program(), *rank, "/dev/stdout"],
                stdout=log,
                cwd=self.folder,
                env=environment(),
                check=True,
                timeout=LIMIT,
            )
        self.assertEqual((self.folder / "log.txt").read_text(), "before\n" + expected)
        if HAS_BOARD:
            page = self.run_foretime("report", "run", "-o", "/dev/stdout").stdout
            self.assertIn("<!doctype html>", page)
            self.assertIn("<title>run – Foretime report</title>", page)

    def program(self):
        return [os.environ.get("FORETIME", str(SOURCE / "build/release/cli/foretime"))]

    # Promise storage/outputs-foreign: a run refuses a folder with foreign files, and `run.overwrite` removes none of
    # them
    def test_a_run_takes_no_folder_of_others(self):
        for name in ("config.yaml", "data.json", "metrics.jsonl", "checkpoints", "rankings.csv"):
            for overwrite in ("false", "true"):
                with self.subTest(file=name, overwrite=overwrite):
                    folder = self.folder / f"mine-{name}-{overwrite}"
                    folder.mkdir()
                    if name == "checkpoints":
                        (folder / name).mkdir()
                        (folder / name / "epoch=3.ckpt").write_text("weights")
                    else:
                        (folder / name).write_text("trainer: {steps: 5}  # mine\n")
                    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
                    done = self.train(run__directory=str(folder), run__overwrite=overwrite, code=2)
                    self.expect_message(done.stderr)
                    self.assertEqual({path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}, before)

    # Promise storage/outputs-foreign
    def test_a_run_that_is_made_again_leaves_what_others_put_there(self):
        run = self.folder / "run"
        (run / "checkpoints/mine").mkdir()
        (run / "checkpoints/step-00000002 (copy)").mkdir()
        for name in (
            "notes.txt",
            "metrics.jsonl.foretime-tmp.mine",
            "checkpoints/best.txt",
            "checkpoints/mine/x",
            "checkpoints/mine.foretime-tmp",
            "config.yaml.mine.foretime-tmp",
            "events.out.tfevents.mine",
        ):
            (run / name).write_text("mine")
        self.run_foretime(
            "train",
            "--quiet",
            self.empty_settings(),
            *self.settings(run__directory="run", run__overwrite="true", trainer__steps=3),
        )
        for name in (
            "notes.txt",
            "metrics.jsonl.foretime-tmp.mine",
            "checkpoints/best.txt",
            "checkpoints/mine/x",
            "checkpoints/mine.foretime-tmp",
            "config.yaml.mine.foretime-tmp",
            "events.out.tfevents.mine",
        ):
            self.assertEqual((run / name).read_text(), "mine")
        self.assertTrue((run / "checkpoints/step-00000002 (copy)").is_dir())
        self.assertTrue((run / "checkpoints/step-00000003").is_dir())
        self.assertFalse((run / "checkpoints/step-00000002").exists())


if __name__ == "__main__":
    unittest.main()
