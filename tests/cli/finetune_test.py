"""foretime finetune: a bundle goes on learning from new measurements, alone and as a job of the queue."""
import gzip
import hashlib
import itertools
import json
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile

from program import FORETIME, LIMIT, SAMPLES, SOURCE, ProgramTest, environment, wait_until

ANSOR = SOURCE / "samples" / "ansor"
NEW = 43  # the task that the model has not seen
KNOWN = (0, 1, 2, 18, 19, 25, 26, 45)


def records_of(tasks):
    """{task: its measured records}"""
    keys = {}
    with (ANSOR / "tasks.jsonl").open() as file:
        for line in file:
            task = json.loads(line)
            if task["task"] in tasks:
                keys[task["workload_key"]] = task["task"]
    found = {task: [] for task in tasks}
    with gzip.open(ANSOR / "records.jsonl.gz", "rt") as file:
        for line in file:
            record = json.loads(line)
            task = keys.get(record["i"][0][0])
            if task is not None and record["r"][1] == 0:
                found[task].append(line)
    return found


def tensors(path):
    """{name: bytes} of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    return {
        name: data[8 + size + entry["data_offsets"][0] : 8 + size + entry["data_offsets"][1]]
        for name, entry in header.items()
        if name != "__metadata__"
    }


def kendall(pairs):
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in itertools.combinations(pairs, 2)]
    return sum((s > 0) - (s < 0) for s in signs) / len(signs)


class FinetuneTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="foretime-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        of = records_of((*KNOWN, NEW))
        (cls.shared / "old.json").write_text("".join(line for task in KNOWN for line in of[task][:40]))
        (cls.shared / "new.json").write_text("".join(of[NEW][:64]))
        (cls.shared / "rest.json").write_text("".join(of[NEW][64:]))
        (cls.shared / "dags.jsonl").write_bytes(gzip.open(ANSOR / "dags.jsonl.gz").read())
        cls.foretime("data", "pack-records", "-o", "old.foretime", "old.json", "--dags", "dags.jsonl")
        cls.foretime(
            "train",
            "--quiet",
            SOURCE / "configs" / "statement_cost.yaml",
            "data.root=.",
            "data.train=[old.foretime]",
            "data.test=[]",
            "model.hidden=32",
            "model.statement_cost.loop_hidden=32",
            "model.ensemble_size=1",
            "loss.type=pairwise_logistic",
            "loss.huber_weight=0.3",
            "trainer.steps=200",
            "trainer.device=cpu",
            "optimizer.warmup_steps=10",
            "run.directory=run",
        )
        cls.foretime("export", "run", "model.foretime", "--licence", "CC0")
        (cls.shared / "empty.yaml").write_text("run: {directory: runs/x}\n")
        trees = (
            "data.format=programs",
            f"data.root={SAMPLES}",
            "data.train=[C1.npz, C12.npz]",
            "data.holdout=0.2",
            "model.type=gcn",
            "model.hidden=16",
            "model.readout=[mean]",
            "model.features.transform=zscore",
            "loss.type=huber",
            "loss.target=log_runtime",
            "loss.standardize_target=true",
            "sampler.groups_per_batch=2",
            "sampler.candidates_per_group=16",
            "trainer.steps=60",
            "trainer.metric=holdout/kendall_tau",
            "trainer.device=cpu",
        )
        cls.foretime("train", "--quiet", "empty.yaml", *trees, "run.directory=trees")
        cls.foretime("export", "trees", "trees.foretime")

    @classmethod
    def foretime(cls, *arguments):
        done = subprocess.run(
            [FORETIME, *map(str, arguments)],
            env=environment(),
            cwd=cls.shared,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def setUp(self):
        super().setUp()
        self.model = self.shared / "model.foretime"
        self.records = ("--dags", self.shared / "dags.jsonl", "--threads", "1")

    def finetune(self, *arguments, out="tuned.foretime", code=0):
        return self.run_foretime("finetune", *arguments, "-o", out, code=code)

    def tuned_json(self, *arguments, **more):
        return json.loads(self.finetune(*arguments, "--json", **more).stdout)

    def order(self, bundle):
        """Kendall's tau of what the bundle says of the records that were kept back."""
        with (self.shared / "rest.json").open() as file:
            costs = [sum(json.loads(line)["r"][0]) for line in file]
        ranked = self.run_foretime("rank", bundle, self.shared / "rest.json", *self.records[:2]).stdout
        rows = self.rows_of(ranked)
        self.assertEqual(len(rows), len(costs))
        return kendall([(float(row["score"]), costs[int(row["id"])]) for row in rows])

    def manifest(self, bundle):
        return self.json_of("bundle", "show", bundle)

    def test_records_of_an_unseen_workload_improve_the_order_of_the_others(self):
        note = self.tuned_json(self.model, self.shared / "new.json", *self.records)
        self.assertEqual((note["groups"], note["trained_on"] + note["held_out"], note["weights"]), (1, 64, "tuned"))
        self.assertGreaterEqual(note["after"]["holdout/kendall_tau"], note["before"]["holdout/kendall_tau"])
        self.assertGreater(self.order("tuned.foretime"), self.order(self.model))

        parent, tuned = self.manifest(self.model), self.manifest("tuned.foretime")
        self.assertEqual(tuned["tunings"][0]["parent"], hashlib.sha256(self.model.read_bytes()).hexdigest()[:16])
        self.assertEqual(tuned["tunings"][0]["trained_on"], note["trained_on"])
        self.assertEqual(tuned["metrics"], note["after"])
        for key in ("settings", "schema", "targets", "training", "licence", "hardware"):
            self.assertEqual(tuned[key], parent[key], key)
        before, after = tensors(self.model), tensors(self.folder / "tuned.foretime")
        self.assertEqual(before.keys(), after.keys())
        transforms = {name for name in before if name.split(".")[-1] in ("offset", "scale")}
        self.assertTrue(transforms)
        for name in transforms:
            self.assertEqual(before[name], after[name], f"{name} was fitted anew")
        self.assertTrue(any(before[name] != after[name] for name in before))

        # The same again is the same; a second round notes both, and may change the licence.
        first = (self.folder / "tuned.foretime").read_bytes()
        self.finetune(self.model, self.shared / "new.json", *self.records)
        self.assertEqual((self.folder / "tuned.foretime").read_bytes(), first)
        self.finetune(
            "tuned.foretime",
            self.shared / "new.json",
            *self.records,
            "--licence",
            "MIT",
            "--steps",
            "5",
            "--take-worse",
            out="again.foretime",
        )
        again = self.manifest("again.foretime")
        self.assertEqual(again["licence"], "MIT")
        self.assertEqual(
            [len(again["tunings"]), again["tunings"][1]["parent"]], [2, hashlib.sha256(first).hexdigest()[:16]]
        )
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["again.foretime", "tuned.foretime"])

    def test_replay_of_old_records_and_of_a_packed_collection(self):
        for old in ("old.json", "old.foretime"):
            note = self.tuned_json(
                self.model, self.shared / "new.json", *self.records, "--replay", self.shared / old, "--take-worse"
            )
            self.assertEqual(note["share"], 1.0)
            self.assertGreater(note["replayed"], 200)
            loss = note["replay_before"]["holdout/kendall_tau"] - note["replay_after"]["holdout/kendall_tau"]
            self.assertLess(loss, 0.15)

    def test_tuned_weights_that_rank_worse_are_not_taken(self):
        spoil = ("--learning-rate", "0.05", "--steps", "30", "--tolerance", "0")
        done = self.finetune(self.model, self.shared / "new.json", *self.records, *spoil, code=6)
        self.assertIn("with the weights of its parent", done.stdout)
        self.assertEqual(tensors(self.folder / "tuned.foretime"), tensors(self.model))
        manifest = self.manifest("tuned.foretime")
        self.assertEqual(manifest["tunings"][0]["weights"], "parent")
        self.assertEqual(manifest["metrics"], self.manifest(self.model)["metrics"])
        done = self.finetune(self.model, self.shared / "new.json", *self.records, *spoil, "--take-worse")
        self.assertIn("held-out candidates are ordered worse", done.stdout)
        self.assertNotEqual(tensors(self.folder / "tuned.foretime"), tensors(self.model))

    def test_syntax_trees(self):
        model = self.shared / "trees.foretime"
        note = self.tuned_json(model, SAMPLES / "C10.npz", "--steps", "20", "--take-worse")
        self.assertEqual(note["trained_on"] + note["held_out"], 720)
        self.run_foretime("data", "pack", "-o", "c10.foretime", SAMPLES / "C10.npz", "--format", "programs")
        packed = self.tuned_json(model, "c10.foretime", "--steps", "20", "--take-worse", out="packed.foretime")
        self.assertEqual(packed["after"], note["after"])
        done = self.finetune(model, self.shared / "new.json", *self.records, out="none.foretime", code=3)
        self.expect_message(done.stderr)
        self.assertFalse((self.folder / "none.foretime").exists())

    def test_programs_as_save_json_text(self):
        texts = SOURCE / "samples" / "tir" / "resnet18_conv2d_save_json.jsonl.gz"
        for model in ("trees", "model"):  # of syntax trees, of loop programs
            note = self.tuned_json(
                self.shared / f"{model}.foretime",
                texts,
                "--member",
                "lowered",
                "--steps",
                "2",
                "--holdout",
                "0",
                out=f"{model}.foretime",
            )
            self.assertEqual((note["groups"], note["trained_on"] + note["held_out"]), (12, 24))
            self.assertNotEqual(tensors(self.folder / f"{model}.foretime"), tensors(self.shared / f"{model}.foretime"))
        lines = gzip.open(texts, "rt").read().splitlines()
        (self.folder / "alone.jsonl").write_text("\n".join(lines[:5]) + "\n")  # two of C1, two of C2, one of C3
        done = self.finetune(self.model, "alone.jsonl", "--member", "lowered", "--steps", "2", "--holdout", "0")
        self.assertIn("1 programs of workloads of which fewer than two ran left out", done.stdout)
        for part, some in (("round1", lines[:5]), ("round2", lines[5:6])):  # the second has the other of C3
            self.write(f"{part}.jsonl", "\n".join(some) + "\n")
        note = self.tuned_json(self.model, "round*.jsonl", "--member", "lowered", "--steps", "2", "--holdout", "0")
        self.assertEqual((note["groups"], note["trained_on"] + note["held_out"]), (3, 6))

        def refused(lines, *arguments, expected):
            self.write("bad.jsonl", "\n".join(lines) + "\n")
            done = self.finetune(self.model, "bad.jsonl", *arguments, out="none.foretime", code=3)
            self.assertIn(expected, done.stderr)
            self.assertFalse((self.folder / "none.foretime").exists())

        refused(lines[:4], expected="bad.jsonl")  # which of the two texts?
        refused(lines[:1], "--member", "lowered", expected="no workload has two programs")
        without = [
            json.dumps({key: value for key, value in json.loads(line).items() if key != "runtime"})
            for line in lines[:2]
        ]
        refused(without, "--member", "lowered", expected="workload C1: programs without a run time")

    def test_layouts(self):
        for name, seed in (("synthetic_a.npz", 1), ("synthetic_b.npz", 2)):
            self.synthesize(name, 120, 12, 150, seed)
        self.run_foretime(
            "train",
            "--quiet",
            self.shared / "empty.yaml",
            "data.format=layout",
            "data.root=.",
            "data.train=[synthetic_a.npz]",
            "data.holdout=0.2",
            "model.hidden=16",
            "trainer.steps=30",
            "trainer.device=cpu",
            "trainer.metric=holdout/kendall_tau",
            "run.directory=layouts",
        )
        self.run_foretime("export", "layouts", "layouts.foretime")
        note = self.tuned_json("layouts.foretime", "synthetic_b.npz", "--replay", "synthetic_a.npz", "--take-worse")
        self.assertEqual((note["groups"], note["trained_on"] + note["held_out"]), (1, 150))
        self.assertIn("kendall_tau", "".join(note["replay_after"]))
        done = self.finetune("layouts.foretime", self.shared / "new.json", *self.records, out="none.foretime", code=3)
        self.expect_message(done.stderr)
        done = self.finetune("layouts.foretime", SAMPLES / "C1.npz", out="none.foretime", code=3)
        self.expect_message(done.stderr)
        texts = SOURCE / "samples" / "tir" / "resnet18_conv2d_save_json.jsonl.gz"
        done = self.finetune("layouts.foretime", texts, out="none.foretime", code=3)
        self.expect_message(done.stderr)

    def test_what_is_left_out_is_said(self):
        lines = (self.shared / "new.json").read_text().splitlines()
        failed = json.loads(lines[1])
        failed["r"][0], failed["r"][1] = [1e10], 7
        single = (self.shared / "old.json").read_text().splitlines()[0]
        path = self.write("log.json", "\n".join([*lines[2:40], json.dumps(failed), lines[0][:100], single]) + "\n")
        done = self.finetune(self.model, path, *self.records, "--steps", "2", "--take-worse")
        for text in (
            "1 programs failed: they rank behind all that ran",
            "1 lines that are no records left out, the first: ",
            "1 records of workloads with a single one",
        ):
            self.assertIn(text, done.stdout)
        # A workload of which nothing can be replayed does not spoil the others; alone, it is an error.
        other = [json.loads(line) for line in (self.shared / "old.json").read_text().splitlines()[:3]]
        for record in other:
            record["i"][1][1] = [["SP", 99, 0, 128, [4], 1]]
        path.write_text("\n".join([*lines[:40], *map(json.dumps, other)]) + "\n")
        done = self.finetune(self.model, path, *self.records, "--steps", "2", "--take-worse")
        self.assertIn("3 records that cannot be replayed left out", done.stdout)
        self.write("none.json", "\n".join(map(json.dumps, other)) + "\n")
        done = self.finetune(self.model, "none.json", *self.records, out="none.foretime", code=3)
        self.expect_message(done.stderr)
        table = (self.shared / "dags.jsonl").read_text().splitlines()
        key = json.loads(lines[0])["i"][0][0]
        self.write("one.jsonl", "\n".join(line for line in table if key in json.loads(line).values()) + "\n")
        done = self.finetune(
            self.model, path, self.shared / "old.json", "--dags", "one.jsonl", "--steps", "2", "--take-worse"
        )
        self.assertIn("without a compute DAG in one.jsonl left out", done.stdout)

    def test_wrong_input_leaves_everything_as_it_was(self):
        def refused(*arguments, code=3, expected, out="tuned.foretime"):
            self.assertIn(expected, self.finetune(*arguments, out=out, code=code).stderr)

        new = self.shared / "new.json"
        refused(self.model, new, code=2, expected="--dags: is missing")
        refused(self.model, new, "--dags", "none.jsonl", expected="none.jsonl")
        empty = self.write("empty.json", "")
        refused(self.model, empty, *self.records, expected="empty.json: found an empty file, expected tuning records")
        refused(self.model, new, "--dags", empty, expected="expected compute DAGs")
        (self.folder / "failed.json").write_text(
            "".join(
                json.dumps({**json.loads(line), "r": [[1e10], 7, 1, 1]}) + "\n" for line in new.read_text().splitlines()
            )
        )
        refused(self.model, "failed.json", *self.records, expected="64 failed")
        self.write("few.json", "".join(new.read_text().splitlines(keepends=True)[:4]))
        refused(self.model, "few.json", *self.records, expected="too few to rank")
        self.finetune(self.model, "few.json", *self.records, "--holdout", "0", out="few.foretime")
        refused(self.model, "no*.json", *self.records, expected="no file of this name or pattern")
        refused(self.model, self.model, *self.records, expected="is no packed collection")
        refused(
            self.model,
            SAMPLES / "C1.npz",
            self.shared / "old.foretime",
            "--holdout",
            "0.99",
            "--seed",
            "3",
            "--learning-rate",
            "1e30",
            expected="diverged",
        )
        self.run_foretime("data", "pack", "-o", "trees.foretime", SAMPLES / "C1.npz", "--format", "programs")
        refused(self.model, "trees.foretime", expected="expected 205 of data.representation loops")
        refused(
            self.shared / "trees.foretime",
            self.shared / "old.foretime",
            expected="data.representation loops, expected ast",
        )
        refused(new, new, *self.records, expected="new.json")
        refused(self.model, new, *self.records, code=2, out=self.model, expected="is an input of this command")
        refused(self.model, new, *self.records, code=2, out="few.json", expected="exists and is a text file")
        refused(self.model, new, *self.records, code=2, out="nowhere/tuned.foretime", expected="nowhere")
        refused(self.model, new, *self.records, "--confine", self.folder, expected="lies outside")
        self.assertEqual(empty.read_text(), "")
        self.assertEqual(
            sorted(path.name for path in self.folder.iterdir()),
            ["empty.json", "failed.json", "few.foretime", "few.json", "trees.foretime"],
        )

    def agent(self, code=0):
        return self.queue("agent", "--data-root", self.shared, "--until-empty", code=code)

    def queue(self, *arguments, code=0):
        done = self.run_foretime(*arguments, code=code)
        return done.stdout if code == 0 else done.stderr

    def test_a_signal_ends_it_and_leaves_nothing(self):
        before = sorted(self.folder.iterdir())
        process = self.start(
            "finetune",
            self.model,
            self.shared / "new.json",
            "--dags",
            self.shared / "dags.jsonl",
            "-o",
            "tuned.foretime",
            "--steps",
            1000000,
        )
        self.assertTrue(wait_until(lambda: list(self.folder.glob(".tuned.foretime.tuning-*"))))
        process.send_signal(signal.SIGHUP)
        self.assertIn("stopped by a signal: no bundle was written", process.communicate(timeout=LIMIT)[1])
        self.assertEqual(process.returncode, 75)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_a_job_of_the_queue(self):
        (self.folder / "round.yaml").write_text(
            "finetune: {model: model.foretime, records: [new.json], dags: dags.jsonl, steps: 30}\n"
        )
        self.assertIn("finetune", self.queue("submit", "round.yaml", "--dry-run"))
        added = json.loads(self.queue("submit", "round.yaml", "--name", "round one", "--json"))["jobs"][0]["id"]
        self.assertIn("was there already", self.queue("submit", "round.yaml"))
        spoiled = json.loads(self.queue("submit", "round.yaml", "learning_rate=0.05", "tolerance=0", "--json"))["jobs"][
            0
        ]["id"]
        outside = json.loads(self.queue("submit", "round.yaml", "records=[../new.json]", "--json"))["jobs"][0]["id"]
        (self.folder / "next.yaml").write_text(
            f"after: {added}\nfinetune: {{records: [new.json], dags: dags.jsonl, steps: 3, take_worse: true}}\n"
        )
        following = json.loads(self.queue("submit", "next.yaml", "--json"))["jobs"][0]["id"]
        self.agent(code=7)  # one of them is outside of the data roots
        job = json.loads(self.queue("status", added, "--json"))
        self.assertEqual((job["kind"], job["state"], job["name"]), ("finetune", "succeeded", "round one"), job)
        self.assertEqual(job["checkpoint"], f"{added}/attempt-1/model.foretime")
        self.assertEqual(job["metrics"]["kept_parent"], 0)
        self.assertEqual(job["objective"], job["metrics"]["holdout/kendall_tau"])
        self.assertGreaterEqual(job["objective"], job["metrics"]["parent/kendall_tau"])

        self.queue("export", added, "round.foretime")
        self.assertEqual(tensors(self.folder / "round.foretime"), tensors(self.folder / "runs" / job["checkpoint"]))
        self.assertIn("from which no checkpoint folder can be written", self.queue("export", added, "folder", code=2))
        alone = self.tuned_json(self.model, self.shared / "new.json", *self.records, "--steps", "30")
        self.assertEqual(
            alone["after"], {name: value for name, value in job["metrics"].items() if name.startswith("holdout/")}
        )
        self.assertEqual((self.folder / "tuned.foretime").read_bytes(), (self.folder / "round.foretime").read_bytes())

        kept = json.loads(self.queue("status", spoiled, "--json"))
        self.assertEqual((kept["state"], kept["metrics"]["kept_parent"]), ("succeeded", 1), kept)
        self.queue("export", spoiled[:12], "kept.foretime")
        self.assertEqual(tensors(self.folder / "kept.foretime"), tensors(self.model))
        refused = json.loads(self.queue("status", outside, "--json"))
        self.assertEqual(refused["state"], "failed")
        self.assertIn("lies outside", refused["error"])
        last = json.loads(self.queue("status", following, "--json"))
        self.assertEqual(last["state"], "succeeded", last)
        self.queue("export", following, "last.foretime")
        self.assertEqual(len(self.manifest("last.foretime")["tunings"]), 2)
        self.assertIn("recods", self.queue("submit", "round.yaml", "recods=x", code=2))
