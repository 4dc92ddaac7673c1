"""Each command does what the README says."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from program import FORETIME, SAMPLES, SOURCE, ProgramTest, data_dir, environment, flip_byte

CONFIG = SOURCE / "configs/quickstart.yaml"


class CommandsTest(ProgramTest):
    def test_a_run_leaves_what_one_needs(self):
        done = self.train(ranks=2, trainer__baselines="[mlp, mean]")
        run = self.folder / "run"
        for name in (
            "config.yaml",
            "metrics.jsonl",
            "rankings.csv",
            "log.txt",
            "environment.json",
            "data.json",
            "comparison.txt",
        ):
            self.assertTrue((run / name).stat().st_size > 0, name)
        self.assertEqual(json.loads((run / "environment.json").read_text())["ranks"], 2)
        for row in ("gcn", "mlp", "mean"):
            self.assertIn(row, done.stdout)
        rankings = self.rows("run/rankings.csv")
        self.assertEqual({row["set"] for row in rankings}, {"holdout", "test"})
        scores = [float(row["score"]) for row in rankings if row["group"] == "C10"]
        self.assertEqual(scores, sorted(scores))
        self.assertEqual(len(scores), 20)

    def test_evaluate_repeats_the_final_evaluation_on_any_number_of_ranks(self):
        self.train()
        final = self.lines_of()[-1]
        for ranks in (1, 2):
            metrics = self.json_of("evaluate", "run", "--json", ranks=ranks)["metrics"]
            for name, value in metrics.items():
                self.assertAlmostEqual(value, final[name], places=6, msg=name)

    def test_evaluate_named_files(self):
        self.train()
        report = self.json_of("evaluate", "run", SAMPLES / "C11.npz", "--json", "--rankings", "out.csv")
        self.assertEqual([group["group"] for group in report["groups"]], ["C11"])
        self.assertEqual(len(self.rows("out.csv")), 20)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_output_on_a_full_disk_ends_with_74(self):
        for command in (["config", CONFIG], ["data", "inspect", SAMPLES / "C11.npz", "--json"], ["--help"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([FORETIME, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 74, command)
            self.assertIn("standard output: cannot be written: No space left on device", done.stderr)

    def test_output_that_nobody_wants_is_no_error(self):
        done = subprocess.run(["sh", "-c", f"'{FORETIME}' config '{CONFIG}' >&-"], stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_rank_formats_agree(self):
        self.train()
        rows = self.rows_of(self.run_foretime("rank", "run", SAMPLES / "C1.npz").stdout)
        ranked = self.json_of("rank", "run", SAMPLES / "C1.npz", "--format", "json")[0]["ranking"]
        self.assertEqual([int(row["candidate"]) for row in rows], [item["candidate"] for item in ranked])
        self.assertEqual(sorted(int(row["candidate"]) for row in rows), list(range(len(rows))))
        self.assertTrue(rows[0]["id"].startswith("C1_"))
        self.assertGreater(float(rows[0]["predicted_runtime"]), 0)
        text = self.run_foretime(
            "rank", "run", SAMPLES / "C1.npz", "--format", "submission", "--collection", "x:y"
        ).stdout
        self.assertEqual(text.splitlines()[0], "ID,TopConfigs")
        self.assertTrue(text.splitlines()[1].startswith("x:y:C1," + rows[0]["candidate"] + ";"))
        self.run_foretime("rank", "run", SAMPLES / "C1.npz", "--format", "submission", code=3)

    def test_rankings_have_the_columns_and_digits_that_the_model_has(self):
        self.train()
        text = self.run_foretime("rank", "run", SAMPLES / "C1.npz").stdout
        self.assertEqual(text.splitlines()[0], "group,rank,candidate,id,score,predicted_runtime")
        self.assertLessEqual(
            max(len(row[name].strip("-")) for row in self.rows_of(text) for name in ("score", "predicted_runtime")),
            13,
            "digits of a float",
        )
        self.train(
            loss__type="listmle",
            loss__target="runtime",
            loss__standardize_target="false",
            run__directory=self.folder / "scores",
        )
        only_scores = self.run_foretime("rank", "scores", SAMPLES / "C1.npz").stdout
        self.assertEqual(only_scores.splitlines()[0], "group,rank,candidate,id,score")
        ranked = self.json_of("rank", "run", SAMPLES / "C1.npz", "--format", "json")[0]["ranking"]
        self.assertEqual(
            [repr(item["score"]) for item in ranked], [repr(float(row["score"])) for row in self.rows_of(text)]
        )

    def test_numbers_below_their_bound_are_refused_in_words(self):
        for arguments, found in (
            (("leaderboard", "--top", "-1"), "--top: found -1, expected a whole number from 0"),
            (("agent", "--cpus", "1.5"), "--cpus: found 1.5, expected a whole number from 0"),
            (("data", "pack", "a", "b", "--memory", "0"), "--memory: found 0, expected a whole number from 1"),
        ):
            text = self.run_foretime(*arguments, code=2).stderr
            self.assertIn(found, text)
            self.assertLess(len(text), 200)

    def test_no_option_takes_nan_for_a_number(self):
        command, tried = None, 0
        for line in (SOURCE / "docs/reference/commands.md").read_text().splitlines():
            heading = re.match(r"###? (?:`)?foretime ([\w -]+?)`?$", line)
            command = heading.group(1).split() if heading else command
            option = re.match(r"\s+(?:-\w,)?(--[\w-]+)\b.*\bFLOAT\b", line)
            if not option or command is None:
                continue
            with self.subTest(command=command, option=option.group(1)):
                text = self.run_foretime(*command, f"{option.group(1)}=nan", code=2).stderr
                self.assertIn(f"{option.group(1)}: found nan, expected a number", text)
                tried += 1
        self.assertGreater(tried, 12)

    def test_data_commands_need_no_libtorch_and_agree_with_the_full_program(self):
        full = pathlib.Path(FORETIME).parent / "core/foretime"
        packed = []
        for name, program in (("light.foretime", FORETIME), ("full.foretime", full)):
            child = subprocess.Popen(
                [program, "data", "pack", "-o", name, SAMPLES / "C1.npz", SAMPLES / "C12.npz", "--format", "programs"],
                cwd=self.folder,
                env=environment(),
                stdout=subprocess.DEVNULL,
            )
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            packed.append((self.folder / name).read_bytes())
            if program == FORETIME:
                self.assertLess(usage.ru_maxrss, 96 * 1024, "KiB: LibTorch alone takes more than this")
        self.assertEqual(packed[0], packed[1])

    def test_a_half_installed_program_says_so(self):
        alone = self.folder / "bin/foretime"
        alone.parent.mkdir()
        shutil.copy(FORETIME, alone)
        done = subprocess.run([alone, "doctor"], capture_output=True, text=True, env=environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("libexec/foretime/foretime: No such file", done.stderr)
        shutil.copytree(pathlib.Path(FORETIME).parent / "core", self.folder / "libexec/foretime")
        self.assertEqual(
            subprocess.run([alone, "experiment", "--help"], capture_output=True, env=environment()).returncode, 0
        )

    def test_the_light_program_alone_has_the_commit(self):
        # A new commit of the same sources links one small program, and saying it loads no LibTorch.
        alone = self.folder / "foretime"
        shutil.copy(FORETIME, alone)
        done = subprocess.run([alone, "--version"], capture_output=True, text=True, env=environment())
        self.assertRegex(done.stdout, r"^foretime \d+\.\d+\.\d+\ncommit \S.*\nLibTorch [\d.]+, .*; .+\n$")
        commit = re.search("^commit (.*)$", done.stdout, re.MULTILINE)[1].encode()
        self.assertIn(commit, alone.read_bytes())
        if commit != b"unknown":
            for program in (pathlib.Path(FORETIME).parent / "core").iterdir():
                if program.name.startswith("foretime"):
                    self.assertNotIn(commit, program.read_bytes(), program)

    def test_packed_data_train_to_the_same_bytes(self):
        self.run_foretime(
            "data", "pack", "-o", "samples.foretime", *[SAMPLES / f"C{i}.npz" for i in (1, 12)], "--format", "programs"
        )
        self.train(data__test="[]", run__directory=self.folder / "npz")
        self.train(
            data__test="[]",
            run__directory=self.folder / "packed",
            data__root=self.folder,
            data__train="samples.foretime",
        )
        self.assertEqual(
            self.checkpoint(6, "npz")["model.safetensors"], self.checkpoint(6, "packed")["model.safetensors"]
        )

    def test_ranks_pack_to_the_same_bytes(self):
        files = [SAMPLES / f"C{i}.npz" for i in (1, 2, 3, 12)]
        packed = []
        for ranks, threads in ((1, 1), (2, 2)):
            self.run_foretime(
                "data", "pack", "-o", "p.foretime", *files, "--format", "programs", "--threads", threads, ranks=ranks
            )
            packed.append((self.folder / "p.foretime").read_bytes())
        self.assertEqual(packed[0], packed[1])
        broken = self.damaged("C12.npz", "C0.npz")
        self.run_foretime("data", "pack", "-o", "p.foretime", *files, broken, "--format", "programs", ranks=2, code=3)
        self.assertEqual((self.folder / "p.foretime").read_bytes(), packed[0])
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["C0.npz", "p.foretime"])

    def damaged(self, sample, name):
        path = pathlib.Path(shutil.copyfile(SAMPLES / sample, self.folder / name))
        flip_byte(path, bits=255)
        return path

    def test_a_damaged_test_set_ends_a_run_at_its_start(self):
        broken = self.damaged("C10.npz", "C10.npz")
        for ranks in (1, 2):
            done = self.train(ranks=ranks, code=3, data__test=f"['{broken}']", trainer__steps=100000)
            self.assertIn("C10.npz", done.stderr)

    def test_early_stopping_ends_a_run(self):
        self.train(
            trainer__steps=400, trainer__eval_every=1, trainer__early_stop__patience=2, trainer__early_stop__min_delta=5
        )
        lines = self.lines_of()
        self.assertEqual(lines[-1]["kind"], "final")
        self.assertEqual(lines[-1]["step"], 3)

    def test_doctor_and_config(self):
        self.assertIn("LibTorch", self.run_foretime("doctor").stdout)
        variable = "OMPI_ALLOW_RUN_AS_ROOT"
        self.assertNotIn(variable, self.run_foretime("doctor").stdout, "both variables are set")
        refused = self.run_foretime("doctor", **{variable: ""}).stdout
        self.assertEqual(
            f"mpirun does not start as root: export {variable}=1 {variable}_CONFIRM=1" in refused, os.geteuid() == 0
        )
        self.assertIn("learning_rate", self.run_foretime("config", "--reference").stdout)

    def test_layouts_of_tpugraphs_are_ranked_by_the_official_indices(self):
        if data_dir() is None:
            self.skipTest("needs the public data sets: set FORETIME_DATA")
        root = data_dir() / "tpugraphs"
        self.train(
            data__format="layout",
            data__root=root,
            data__train="npz/layout/xla/default/train/alexnet_train_batch_32.npz",
            data__test="[]",
            data__valid="npz/layout/xla/default/valid",
            data__eval_indices="eval_indices/xla_default.json",
            data__holdout=0,
            model__type="residual_gcn",
            model__features__transform="minmax",
            loss__type="listmle",
            loss__target="runtime",
            loss__standardize_target="false",
            trainer__steps=2,
            trainer__metric="valid/kendall_tau",
            data__max_eval_candidates=0,
        )
        official = json.loads((root / "eval_indices/xla_default.json").read_text())["unet_3d.4x4.bf16"]
        rows = self.rows("run/rankings.csv")
        self.assertEqual(sorted(int(row["candidate"]) for row in rows), sorted(official))
