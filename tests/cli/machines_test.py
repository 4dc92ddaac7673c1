"""Machines that records name: packing, training with the machine as input, bundles that keep what is known of it, finetune on another."""
import gzip
import itertools
import json

from program import SOURCE, ProgramTest

ANSOR = SOURCE / "samples" / "ansor"
DAGS = ANSOR / "dags.jsonl.gz"
OTHER = """name: other
hardware: {vector_bytes: 32, vector_registers: 16, cores: 2, l1_bytes: 32768, l2_bytes: 524288, l3_bytes: 8388608}
multiply_add_gflop_s: {one: {median: 80.5, low: 80, high: 81, spread: 0.01, runs: 15}}
copy_gb_s: {one: 9.5, all: 14}
"""


class MachinesTest(ProgramTest):
    numbers = itertools.count()

    def setUp(self):
        super().setUp()
        self.write("other.yaml", OTHER)
        with gzip.open(ANSOR / "records.jsonl.gz", "rt") as file:
            self.lines = [line for line in file if any(word in line for word in ("matmul", "softmax", "conv2d"))][:600]
        # The same programs on another machine, where they take twice as long.
        self.write("here.jsonl", "".join(self.lines))
        self.write("there.jsonl", "".join(map(self.elsewhere, self.lines)))

    @staticmethod
    def elsewhere(line):
        record = json.loads(line)
        record["i"][0][1] = record["i"][0][1].replace("-mcpu=znver4", "-mcpu=core-avx2 -model=other")
        record["r"][0] = [2 * seconds for seconds in record["r"][0]]
        return json.dumps(record) + "\n"

    def pack(self, *options, code=0):
        return self.run_foretime(
            "data",
            "pack-records",
            "-o",
            "all.foretime",
            "here.jsonl",
            "there.jsonl",
            "--dags",
            DAGS,
            *options,
            code=code,
        )

    def train(self, run, *settings):
        self.run_foretime(
            "train",
            "--quiet",
            SOURCE / "configs" / "auto_scheduler.yaml",
            "data.root=.",
            "data.train=[all.foretime]",
            "model.hidden=16",
            "model.statement_cost.loop_hidden=16",
            "model.ensemble_size=1",
            "trainer.steps=80",
            "optimizer.warmup_steps=5",
            f"run.directory={run}",
            *settings,
        )

    def test_a_model_knows_the_machines_that_it_learned_from(self):
        printed = self.pack("--targets", ANSOR / "machine.yaml", "other.yaml").stdout
        groups = int(printed.split(" workloads")[0].split()[-1])
        self.assertEqual(groups % 2, 0)
        inspected = self.run_foretime("data", "inspect", "all.foretime").stdout
        self.assertIn("@other", inspected)
        self.assertIn("@amd-epyc-26-2", inspected)
        self.write("here.yaml", (ANSOR / "machine.yaml").read_text())
        self.train(
            "run",
            "model.statement_cost.inputs=[loops, block, machine]",
            "model.statement_cost.roofline=true",
            "data.targets=[here.yaml, other.yaml]",
        )
        self.run_foretime("export", "run", "model.foretime")
        manifest = self.json_of("bundle", "show", "model.foretime")
        self.assertEqual([machine["name"] for machine in manifest["machines"]], ["amd-epyc-26-2", "other"])
        self.assertEqual(manifest["machines"][1]["hardware"]["multiply_add_gflop_s"], 80.5)
        self.assertEqual(manifest["machines"][1]["hardware"]["all_copy_gb_s"], 14)
        self.assertEqual(manifest["schema"]["feature_names"][-1], "machine.roofline")

        # By its name, and by the bundle, records of the other machine take about twice as long; the run ranks as the
        # bundle.
        def predicted(model, records):
            rows = self.rows_of(self.run_foretime("rank", model, records, "--dags", DAGS).stdout)
            return {row["id"]: float(row["score"]) for row in rows}

        here, there = predicted("model.foretime", "here.jsonl"), predicted("model.foretime", "there.jsonl")
        differences = sorted(there[name] - here[name] for name in here)
        self.assertGreater(differences[len(differences) // 2], 0.3)
        # A machine that it does not know is not taken for another: what is guessed of it makes other scores.
        self.write("unknown.jsonl", (self.folder / "there.jsonl").read_text().replace("-model=other", "-model=third"))
        unknown = predicted("model.foretime", "unknown.jsonl")
        self.assertNotEqual(unknown, there)

        # With what is written of it the bundle scores as `rank --targets`, and is the same model for all else.
        self.write("third.yaml", OTHER.replace("other", "third"))
        added = self.run_foretime("bundle", "add-machine", "model.foretime", "third.yaml", "-o", "more.foretime").stdout
        self.assertEqual(added, "more.foretime: knows third\n")
        self.assertEqual(predicted("more.foretime", "unknown.jsonl"), there)
        self.assertEqual(predicted("more.foretime", "here.jsonl"), here)
        add = ("bundle", "add-machine", "more.foretime", "third.yaml", "-o", "more.foretime")
        self.assertIn("-o more.foretime: is an input of this command", self.run_foretime(*add, code=2).stderr)
        self.assertEqual(self.run_foretime(*add, "--force").stdout, "more.foretime: updated third\n")
        # Measured anew under its old name, a machine is still that of the records whose targets name none.
        anew = "".join(
            line for line in (ANSOR / "machine.yaml").read_text().splitlines(True) if not line.startswith("targets:")
        )
        self.assertIn("targets", (ANSOR / "machine.yaml").read_text())
        self.write("anew.yaml", anew.replace("name: other", "name: amd-epyc-26-2"))
        self.run_foretime("bundle", "add-machine", "model.foretime", "anew.yaml", "-o", "anew.foretime")
        self.assertEqual(
            self.json_of("bundle", "show", "anew.foretime")["machines"][-1]["targets"],
            manifest["machines"][0]["targets"],
        )
        self.assertEqual(predicted("anew.foretime", "here.jsonl"), here)
        self.write("notes.txt", "not a bundle")
        self.run_foretime("bundle", "add-machine", "more.foretime", "third.yaml", "-o", "notes.txt", code=2)
        self.assertEqual((self.folder / "notes.txt").read_text(), "not a bundle")

    def test_finetune_takes_up_a_new_machine(self):
        self.run_foretime("data", "pack-records", "-o", "all.foretime", "here.jsonl", "--dags", DAGS)
        self.train("run", "model.statement_cost.inputs=[loops, block, machine]")
        self.run_foretime("export", "run", "model.foretime")
        self.run_foretime(
            "finetune",
            "model.foretime",
            "there.jsonl",
            "--dags",
            DAGS,
            "--targets",
            "other.yaml",
            "--steps",
            5,
            "--take-worse",
            "-o",
            "tuned.foretime",
        )
        manifest = self.json_of("bundle", "show", "tuned.foretime")
        self.assertEqual([machine["name"] for machine in manifest["machines"]], ["other"])
        # Twice the same machine is one, with what was said last.
        self.write("other.yaml", OTHER.replace("80.5", "81.5"))
        self.run_foretime(
            "finetune",
            "tuned.foretime",
            "there.jsonl",
            "--dags",
            DAGS,
            "--targets",
            "other.yaml",
            "--steps",
            5,
            "--take-worse",
            "-o",
            "again.foretime",
        )
        machines = self.json_of("bundle", "show", "again.foretime")["machines"]
        self.assertEqual([(m["name"], m["hardware"]["multiply_add_gflop_s"]) for m in machines], [("other", 81.5)])

    def test_a_machine_that_a_model_does_not_know_is_named_or_described(self):
        self.run_foretime("data", "pack-records", "-o", "all.foretime", "here.jsonl", "--dags", DAGS)
        self.train("run", "model.statement_cost.inputs=[loops, block, machine]", "model.statement_cost.roofline=true")
        self.run_foretime("export", "run", "model.foretime")
        guessed = "(other): their caches and rates are guessed"

        def ranked(*arguments):
            done = self.run_foretime("rank", *arguments)
            return {row["id"]: row["score"] for row in self.rows_of(done.stdout)}, " ".join(done.stderr.split())

        by_guess, said = ranked("model.foretime", "there.jsonl", "--dags", DAGS)
        self.assertIn("there.jsonl: records are from machines that are not in the model " + guessed, said)
        described, said = ranked("model.foretime", "there.jsonl", "--dags", DAGS, "--targets", "other.yaml")
        self.assertNotIn("not in the model", said)
        self.assertNotEqual(described, by_guess)
        self.assertEqual(ranked("run", "there.jsonl", "--dags", DAGS, "--targets", "other.yaml")[0], described)

        self.run_foretime("bundle", "add-machine", "model.foretime", "other.yaml", "-o", "knows.foretime")
        self.assertNotIn("does not know", ranked("knows.foretime", "there.jsonl", "--dags", DAGS)[1])

        # As programs score that were packed for it.
        pack = ("data", "pack-records", "-o", "there.foretime", "there.jsonl", "--dags", DAGS)
        self.assertIn(guessed, self.run_foretime(*pack).stdout)
        self.assertNotIn("guessed", self.run_foretime(*pack, "--targets", "other.yaml").stdout)
        packed = ranked("model.foretime", "there.foretime")[0]
        self.assertEqual(packed.keys(), described.keys())
        for name, score in described.items():
            self.assertAlmostEqual(float(packed[name]), float(score), delta=1e-4)

        # One workload packed twice, on two machines, would be two groups of one name.
        self.assertIn(
            "expected one group of a name; pack the records of a workload from several files, or machines, in one pack-records",
            self.refused(3, "data.train=[all.foretime, there.foretime]", "data.targets=[other.yaml]"),
        )

        finetune = (
            "finetune",
            "model.foretime",
            "there.jsonl",
            "--dags",
            DAGS,
            "--steps",
            5,
            "--take-worse",
            "-o",
            "tuned.foretime",
        )
        self.assertIn(
            "records are of machines that the bundle does not know " + guessed, self.run_foretime(*finetune).stdout
        )
        self.assertNotIn("guessed", self.run_foretime(*finetune, "--targets", "other.yaml").stdout)
        # TVM says this where nobody named a machine.
        self.write("unnamed.jsonl", (self.folder / "there.jsonl").read_text().replace("-model=other", "-model=unknown"))
        self.assertNotIn("guessed", ranked("model.foretime", "unnamed.jsonl", "--dags", DAGS)[1])
        # Beside machines that the model knows, such records are of one that is guessed; a file that none is of is told.
        said = ranked("knows.foretime", "unnamed.jsonl", "--dags", DAGS)[1]
        self.assertIn("a CPU that its target does not name by -model=", said)
        said = ranked("model.foretime", "here.jsonl", "--dags", DAGS, "--targets", "other.yaml")[1]
        self.assertIn(
            "here.jsonl: found no record from machine other of --targets (-model=other, or a target of its file)", said
        )

    def test_what_cannot_be_meant_is_refused(self):
        message = self.pack("--targets", "missing.yaml", code=2).stderr
        self.assertIn("missing.yaml", message)
        message = self.pack("--targets", "other.yaml", "other.yaml", code=3).stderr
        self.assertIn("two machines are named other", message)
        self.write("wrong.yaml", OTHER.replace("name: other", 'name: "an other"'))
        self.assertIn("name: 'an other' has a blank", self.pack("--targets", "wrong.yaml", code=2).stderr)
        self.write("wrong.yaml", "name: other\n")
        self.assertIn("wrong.yaml: hardware: missing", self.pack("--targets", "wrong.yaml", code=2).stderr)
        self.write("wrong.yaml", OTHER.replace("copy_gb_s", "copy_gbs"))
        message = self.pack("--targets", "wrong.yaml", code=2).stderr
        self.assertIn("wrong.yaml:4: copy_gbs: unknown key, did you mean copy_gb_s?", message)
        self.pack("--targets", "other.yaml", "--hardware", "cores=2", code=2)
        self.pack()
        done = self.run_foretime(
            "train",
            SOURCE / "configs" / "auto_scheduler.yaml",
            "data.root=.",
            "data.train=[all.foretime]",
            "run.directory=run",
            "data.targets=[elsewhere.yaml]",
            code=2,
        )
        self.assertIn("elsewhere.yaml", done.stderr)

    def refused(self, code, *settings):
        done = self.run_foretime(
            "train",
            SOURCE / "configs" / "auto_scheduler.yaml",
            "data.root=.",
            "data.train=[all.foretime]",
            f"run.directory=refused{next(self.numbers)}",
            "trainer.steps=1",
            *settings,
            code=code,
        )
        return " ".join(done.stderr.split())

    def test_a_model_is_not_trained_for_machines_other_than_it_learns_from(self):
        # Known when it scores, guessed when it learns.
        self.pack()
        message = self.refused(2, "data.targets=[other.yaml]")
        self.assertIn(
            "data.targets: names machines (other), but no group of data.train was packed with these files", message
        )
        self.assertIn("pack-records --targets", message)
        for option in ("model.features.log=true", "data.hardware.cores=2"):
            self.assertIn("no group of data.train", self.refused(2, "data.targets=[other.yaml]", option))

        # Known when it learns, guessed when it scores: no file, that of one machine of two, and one that was measured
        # again since.
        self.write("here.yaml", (ANSOR / "machine.yaml").read_text())
        self.write("again.yaml", OTHER.replace("9.5", "9.75"))
        self.pack("--targets", "here.yaml", "other.yaml")
        self.assertRegex(
            self.refused(3),
            r"all.foretime: .*a machine that data.targets does not name, .*name the files in data.targets",
        )
        self.assertRegex(
            self.refused(3, "data.targets=[here.yaml]"), r"@other: .*none of data.targets \(amd-epyc-26-2\)"
        )
        self.assertRegex(
            self.refused(3, "data.targets=[here.yaml, again.yaml]", "model.features.log=true"),
            r"@other: .*none of data.targets",
        )

        self.pack("--hardware", "l3_bytes=8388608")
        self.assertIn("put what it had as --hardware into data.hardware", self.refused(3))
        self.train("tir", "trainer.steps=1", "data.hardware.l3_bytes=8388608")

        # Of some records nothing is known, and a machine that none of them ran on may be served: both are fine.
        self.pack("--targets", "other.yaml")
        self.train("run", "trainer.steps=1", "data.targets=[other.yaml, here.yaml]")

        # Programs that no machine changes.
        self.pack("--representation", "curve")
        message = self.refused(
            2, "data.representation=curve", "model.type=mlp", "model.readout=[mean]", "data.targets=[other.yaml]"
        )
        self.assertIn("which only programs as loop graphs depend on", message)
