"""Tuning records: data inspect, data pack-records, and a model trained on what they become."""
import gzip
import json
import shutil
import subprocess
import sys

from bundles import Server
from program import SAMPLES, SOURCE, ProgramTest

RECORDS = SOURCE / "samples" / "ansor" / "records.jsonl.gz"
DAGS = SOURCE / "samples" / "ansor" / "dags.jsonl.gz"


SMALL = (
    SOURCE / "configs" / "statement_cost.yaml",
    "data.root=.",
    "data.train=[packed.foretime]",
    "data.test=[]",
    "model.hidden=32",
    "model.statement_cost.loop_hidden=32",
    "model.ensemble_size=1",
    "model.statement_cost.inputs=[loops,accesses,statement]",
    "loss.type=pairwise_logistic",
    "loss.huber_weight=0.3",
    "trainer.steps=150",
    "trainer.threads=1",
    "optimizer.warmup_steps=10",
    "run.directory=run",
)


class RecordsTest(ProgramTest):
    def damaged(self):
        """Three of the sample's records; then one cut short, one that failed, and a comment."""
        with gzip.open(RECORDS, "rt") as file:
            lines = [next(file) for _ in range(5)]
        failed = json.loads(lines[4])
        failed["r"][0], failed["r"][1] = [1e10], 7
        path = self.write("log.json", "".join(lines[:3]) + lines[3][:200] + "\n" + json.dumps(failed) + "\n# the end\n")
        return path

    def test_the_samples(self):
        out = self.run_foretime("data", "inspect", RECORDS).stdout
        self.assertIn("4836 tuning records of 50 workloads", out)
        self.assertIn("spread of the repeats", out)

    def test_what_is_left_out_is_counted(self):
        path = self.damaged()
        out = self.run_foretime("data", "inspect", path).stdout
        self.assertIn("3 tuning records", out)
        self.assertIn("1 failed measurements, 1 malformed lines, 1 empty lines and comments", out)
        self.assertIn("log.json:4: no JSON", out)
        self.assertIn("run timeout: 1", out)
        (report,) = self.json_of("data", "inspect", "--json", path)
        self.assertEqual([report["records"], report["failed"], report["malformed"], report["skipped"]], [3, 1, 1, 1])
        self.assertEqual(report["first_malformed"][0]["line"], 4)

    def test_folders_need_no_format(self):
        """The first file says what a folder holds; a file of another kind is refused by name."""
        folder = self.folder / "npz" / "layout" / "xla" / "default" / "train"
        folder.mkdir(parents=True)
        for name in ("synthetic_a", "synthetic_b"):
            self.synthesize(folder / f"{name}.npz", 50, 5, 4)
        for name in (folder, self.folder / "npz", folder / "*.npz"):
            reports = self.json_of("data", "inspect", "--json", name)
            self.assertEqual(
                [(report["name"], report["kind"]) for report in reports],
                [("synthetic_a", "layout"), ("synthetic_b", "layout")],
            )
        shutil.copy(SAMPLES / "C11.npz", folder / "z.npz")
        self.expect_message(self.run_foretime("data", "inspect", folder, code=3).stderr, "z.npz")
        (self.folder / "empty").mkdir()
        self.expect_message(self.run_foretime("data", "inspect", self.folder / "empty", code=3).stderr)

    def test_records_and_groups_do_not_mix(self):
        done = self.run_foretime("data", "inspect", RECORDS, SAMPLES / "C1.npz", code=3)
        self.expect_message(done.stderr)

    def test_a_damaged_file(self):
        path = self.write("cut.jsonl.gz", RECORDS.read_bytes()[:5000])
        done = self.run_foretime("data", "inspect", path, code=3)
        self.expect_message(done.stderr, "cut.jsonl.gz")

    def pack(self, *options, name="packed.foretime", code=0, records=RECORDS):
        return self.run_foretime(
            "data", "pack-records", "-o", self.folder / name, records, "--dags", DAGS, *options, code=code
        )

    def test_a_workload_whose_chosen_records_all_failed_is_left_out(self):
        """Some of its records ran, and none of those that were chosen, as large files have it: the others are packed."""
        with gzip.open(RECORDS, "rt") as file:
            records = [json.loads(line) for line in file]
        key = records[-1]["i"][0][0]
        of_last = [record for record in records if record["i"][0][0] == key]
        for record in of_last[2:]:
            record["r"][0], record["r"][1] = [1e10], 4
        self.write("failed.json", "".join(json.dumps(record) + "\n" for record in records))
        out = self.pack("--most", "2", records="failed.json").stdout
        self.assertIn("records of workloads none of whose programs ran left out", out)
        self.assertEqual(len(self.json_of("data", "inspect", "--json", "packed.foretime")), 48)

    def test_packing_chooses_records(self):
        out = self.pack("--most", "12").stdout
        self.assertIn("49 workloads, 588 programs", out)
        self.assertIn("1 records of workloads with fewer than 2 left out", out)
        self.assertIn("49 groups", self.run_foretime("data", "verify", "packed.foretime").stdout)
        self.write("lines.json", json.dumps({"train": {"a": [0, 49, 96], "b": [1, 50]}}))
        self.assertIn("2 workloads, 5 programs", self.pack("--lines", "lines.json", "--member", "train").stdout)
        networks = [
            {"network": "one", "first_line": 0, "lines": 300},
            {"network": "two", "first_line": 300, "lines": 100},
        ]
        self.write("networks.json", json.dumps(networks))
        out = self.pack("--networks", "networks.json", "--take", "one").stdout
        self.assertIn(" 299 programs", out)
        done = self.pack("--networks", "networks.json", "--take", "one", "--never", "two", code=3)
        self.expect_message(done.stderr)  # both networks have all workloads

    def test_lines_are_named_with_their_files(self):
        with gzip.open(RECORDS, "rt") as file:
            lines = [next(file) for _ in range(260)]
        for folder, first in (("a", 0), ("b", 97)):  # two files of one name
            (self.folder / folder).mkdir()
            self.write(f"{folder}/log.json", "".join(lines[first : first + 97]))
        broken = self.write("broken.json", "".join(lines[200:203]) + lines[203][:200] + "\n" + "".join(lines[204:]))
        out = self.run_foretime(
            "data", "pack-records", "-o", "two.foretime", "a/log.json", "b/log.json", broken, "--dags", DAGS
        ).stdout
        self.assertIn(f"1 lines that are no records left out, the first: {broken}:4: no JSON", out)
        self.pack("--most", "3")
        self.run_foretime("train", "--quiet", *SMALL, "trainer.steps=2", "optimizer.warmup_steps=1")
        by_groups = self.rows_of(self.run_foretime("rank", "run", "two.foretime").stdout)
        by_records = self.rows_of(
            self.run_foretime("rank", "run", "a/log.json", "b/log.json", broken, "--dags", DAGS).stdout
        )
        for rows in (by_groups, by_records):
            ids = [row["id"] for row in rows]
            self.assertEqual(len(ids), len(set(ids)))
            self.assertLessEqual({"a/log.json:0", "b/log.json:96", "broken:0"}, set(ids))
        self.write("lines.json", "[0, 1, 150]")
        done = self.run_foretime(
            "data", "pack-records", "-o", "x.foretime", "a/log.json", "--dags", DAGS, "--lines", "lines.json", code=3
        )
        self.expect_message(done.stderr, "a/log.json")

    def test_records_where_groups_are_expected(self):
        self.pack("--most", "3")
        self.run_foretime("train", "--quiet", *SMALL, "trainer.steps=2", "optimizer.warmup_steps=1")
        for command in (
            ("evaluate", "run", RECORDS),
            ("data", "pack", "-o", "x.foretime", RECORDS, "--format", "programs"),
            ("train", *SMALL, f"data.test=[{RECORDS}]", "run.directory=x"),
        ):
            self.expect_message(self.run_foretime(*command, code=3).stderr)
        self.assertIn("give --dags FILE", self.run_foretime("rank", "run", RECORDS, code=2).stderr)

    def test_ranks_pack_together(self):
        self.pack("--most", "30", "--threads", "1")
        alone = (self.folder / "packed.foretime").read_bytes()
        self.run_foretime(
            "data", "pack-records", "-o", "shared.foretime", RECORDS, "--dags", DAGS, "--most", "30", ranks=2
        )
        self.assertEqual((self.folder / "shared.foretime").read_bytes(), alone)
        done = self.run_foretime(
            "data", "pack-records", "-o", "none.foretime", self.damaged(), "--dags", DAGS, ranks=2, code=3
        )
        self.assertIn(
            "no workload has 2 programs that ran: 4 records, 1 failed measurements and 1 malformed lines", done.stderr
        )
        self.assertFalse(list(self.folder.glob("none.foretime*")))

    def test_packing_refuses_what_it_cannot_read(self):
        self.assertIn("no network three", self.pack_with_networks("--take", "three").stderr)
        done = self.pack("--lines", "missing.json", code=3)
        self.expect_message(done.stderr, "missing.json")
        self.write("lines.json", '{"a": "text"}')
        self.expect_message(self.pack("--lines", "lines.json", "--member", "b", code=3).stderr)
        self.expect_message(self.pack("--lines", "lines.json", "--member", "a", code=3).stderr)
        for wrong, text in (
            ("[]", "no line numbers"),
            ("[0, -1]", "line -1, expected 0 or more"),
            ('["x", 0]', 'found "x", expected line numbers'),
        ):
            self.write("lines.json", wrong)
            self.assertIn(f"lines.json: {text}", self.pack("--lines", "lines.json", code=3).stderr)
        self.assertIn("KEY=VALUE", self.pack("--hardware", "cores", code=2).stderr)
        self.assertIn("data.hardware.sockets", self.pack("--hardware", "sockets=2", code=2).stderr)
        empty = self.write("none.jsonl", "")
        done = self.run_foretime("data", "pack-records", "-o", "x.foretime", RECORDS, "--dags", empty, code=3)
        self.assertIn("none.jsonl", done.stderr)
        self.assertFalse(list(self.folder.glob("*.part*")))

    def pack_with_networks(self, *options):
        self.write("networks.json", '[{"network": "one", "first_line": 0, "lines": 300}]')
        return self.pack("--networks", "networks.json", *options, code=3)

    def test_a_model_learns_which_programs_fail(self):
        with gzip.open(RECORDS, "rt") as file:
            records = [json.loads(line) for line in file]
        times = {}
        for record in records:
            times.setdefault(record["i"][0][0], []).append(sum(record["r"][0]) / len(record["r"][0]))
        limit = {key: sorted(of_key)[len(of_key) * 3 // 4] for key, of_key in times.items()}
        for record in records:  # a run time-out for the slowest quarter
            if sum(record["r"][0]) / len(record["r"][0]) > limit[record["i"][0][0]]:
                record["r"][0], record["r"][1] = [1e10], 7
        log = self.write("failures.json", "".join(json.dumps(record) + "\n" for record in records))
        self.assertIn("programs failed: they rank behind all that ran", self.pack("--most", "40", records=log).stdout)
        self.run_foretime("train", "--quiet", *SMALL)
        last = self.lines_of()[-1]
        self.assertGreater(last["holdout/failure_auc"], 0.8)
        self.assertGreater(last["holdout/kendall_tau"], 0.4)
        self.assertIn("inf", (self.folder / "run" / "rankings.csv").read_text())
        # With an output of its own, which a bundle tells, too.
        self.run_foretime("train", "--quiet", *SMALL, "model.failure_output=true", "run.directory=failures")
        self.assertGreater(self.lines_of("failures")[-1]["holdout/failure_auc"], 0.7)
        self.run_foretime("export", "failures", "failures.foretime")
        ranking = self.json_of("rank", "failures.foretime", log, "--dags", DAGS, "--format", "json")
        lines = [record["r"][1] != 0 for record in records]
        chances = [(lines[int(item["id"])], item["failure"]) for of_task in ranking for item in of_task["ranking"]]
        means = [
            sum(chance for failed, chance in chances if failed == which) / sum(failed == which for failed, _ in chances)
            for which in (False, True)
        ]
        self.assertGreater(means[1], 2 * means[0])
        self.failures_are_told_everywhere()
        done = self.run_foretime(
            "train",
            "--quiet",
            *SMALL,
            "model.failure_output=true",
            "run.directory=none",
            f"data.train=[{SOURCE}/samples/ansor/trees/t00.npz]",
            "trainer.steps=1",
        )
        self.assertIn("no training candidate failed", done.stderr)
        self.assertIn("failed", self.run_foretime("data", "inspect", "packed.foretime").stdout)
        self.assertNotIn(
            "rank behind", self.pack("--most", "40", "--without-failures", name="ran.foretime", records=log).stdout
        )

    def failures_are_told_everywhere(self):
        """By the checkpoint, the bundle, NumPy and TorchScript, and by the server."""

        def chances(model):
            return [
                item["failure"]
                for group in self.json_of("rank", model, "packed.foretime", "--format", "json")
                for item in group["ranking"]
            ]

        by_run, by_bundle = chances("failures"), chances("failures.foretime")
        self.assertEqual(len(by_run), len(by_bundle))
        for one, other in zip(by_run, by_bundle):
            self.assertAlmostEqual(one, other, delta=1e-4)
        self.run_foretime("export", "failures", "failures.pt")
        self.plan_arrays("failures.foretime", SOURCE / "samples/ansor/trees/t00.npz", "inputs.npz")
        checked = subprocess.run(
            [
                sys.executable,
                SOURCE / "tools/data/check_bundle.py",
                "failures.foretime",
                "inputs.npz",
                "--torchscript",
                "failures.pt",
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if "No module named 'torch'" not in checked.stderr:
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            self.assertRegex(
                checked.stdout,
                r"NumPy: 103 failures, .*: equal\nTorchScript: 103 scores, .*: equal\nTorchScript: 103 failures, .*: equal",
            )
        with gzip.open(DAGS, "rt") as file:
            dag = next(file)
        key = json.loads(dag)["workload_key"]
        with gzip.open(RECORDS, "rt") as file:
            texts = [line for line in file if json.loads(line)["i"][0][0] == key][:8]
        server = Server(self, "failures.foretime")
        path = f"/v1/workloads/{server.post('/v1/workloads', dag)['id']}/score"
        answer = server.post(path, "".join([*texts, "nonsense\n"]))
        self.assertIsNone(answer["failures"].pop())
        self.assertTrue(all(0 < chance < 1 for chance in answer["failures"]), answer)
        ranking = server.post(path + "?top=0", "".join(texts))["ranking"]
        self.assertEqual(
            [item["failure"] for item in ranking], [answer["failures"][item["candidate"]] for item in ranking]
        )
        self.expect_message(
            self.run_foretime("rank", "failures", "packed.foretime", "--threads", "2", code=2).stderr, "--threads"
        )

    def test_a_model_learns_from_records_and_ranks_trees(self):
        self.pack("--most", "40", "--hardware", "vector_bytes=64,vector_registers=32,cores=1")
        self.run_foretime("train", "--quiet", *SMALL)
        last = self.lines_of()[-1]
        self.assertGreater(last["holdout/kendall_tau"], 0.5)
        self.assertIn("holdout/mae", last)
        trees = SOURCE / "samples" / "ansor" / "trees" / "t00.npz"
        (ranking,) = self.json_of("rank", "run", trees, "--format", "json")
        self.assertEqual(len(ranking["ranking"]), 103)
        done = self.run_foretime("train", "--quiet", *SMALL, "data.representation=curve", "run.directory=other", code=3)
        self.expect_message(done.stderr)
        done = self.run_foretime(
            "train", "--quiet", *SMALL, "data.representation=ast", "model.type=gcn", "run.directory=other", code=3
        )
        self.expect_message(done.stderr)
        done = self.run_foretime(
            "train",
            "--quiet",
            *SMALL,
            f"data.train=[{trees}]",
            "data.representation=ast",
            "run.directory=other",
            code=2,
        )
        self.expect_message(done.stderr)
