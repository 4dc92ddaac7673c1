"""Records of programs for GPUs: packing, training, a bundle that ranks them, and what is refused."""
import gzip
import json

from program import SOURCE, ProgramTest

STATES = SOURCE / "tests" / "data" / "frontends" / "ansor"
ANSOR = SOURCE / "samples" / "ansor"
TARGET = "cuda -keys=cuda,gpu -arch=sm_70 -max_num_threads=1024 -thread_warp_size=32"
LIMITS = [-1, 16, 64, 49152, 2147483647, 1024, 8, 32]
GPU = {
    "multiprocessors": 20,
    "warp_size": 32,
    "threads_per_block": 512,
    "shared_bytes_per_block": 49152,
    "threads_per_multiprocessor": 1024,
    "blocks_per_multiprocessor": 16,
    "registers_per_multiprocessor": 32768,
    "registers_per_thread": 63,
    "shared_bytes_per_multiprocessor": 65536,
}
CARD = f"""name: card
targets: ["TARGET"]
hardware: {json.dumps(GPU)}
copy_gb_s: {{all: 300}}
"""


class GpuRecordsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.dags = STATES / "gpu_operators_dags.jsonl.gz"
        with gzip.open(STATES / "gpu_operators_states.jsonl.gz", "rt") as file:
            self.states = [json.loads(line) for line in file]
        self.write("gpu.jsonl", self.records(TARGET, LIMITS))

    def records(self, target, limits):
        """auto_scheduler's own schedules, with run times made up: the more steps the faster."""
        return "".join(
            json.dumps(
                {
                    "i": [[state["workload_key"], target, limits, "", 0, []], [[], state["steps"]]],
                    "r": [[1.0 / len(state["steps"])], 0, 1.0, 1],
                    "v": "v0.6",
                }
            )
            + "\n"
            for state in self.states
        )

    def pack(self, *options, records=("gpu.jsonl",), name="gpu.foretime", code=0):
        return self.run_foretime("data", "pack-records", "-o", name, *records, "--dags", self.dags, *options, code=code)

    def train(self, data, run, *settings):
        self.run_foretime(
            "train",
            "--quiet",
            SOURCE / "configs" / "auto_scheduler.yaml",
            "data.root=.",
            f"data.train=[{data}]",
            f"data.valid=[{data}]",
            "data.overlap=warn",
            "data.holdout=0",
            "model.hidden=16",
            "model.statement_cost.loop_hidden=16",
            "model.ensemble_size=1",
            "model.statement_cost.inputs=[loops, accesses, block, machine]",
            "trainer.steps=30",
            "optimizer.warmup_steps=5",
            "trainer.metric=valid/kendall_tau",
            f"run.directory={run}",
            *settings,
        )

    def test_records_of_gpus_from_packing_to_ranking(self):
        out = self.pack().stdout
        self.assertNotIn("cannot be replayed", out)
        self.assertNotIn("guessed", out)
        report = self.json_of("data", "inspect", "--json", "gpu.foretime")
        self.assertEqual({group["features"] for group in report}, {263})
        self.train("gpu.foretime", "run")
        self.run_foretime("export", "run", "gpu_model.foretime")
        manifest = self.json_of("bundle", "show", "gpu_model.foretime")
        self.assertEqual(manifest["schema"]["feature_names"][205], "gpu.is_gpu")
        rows = self.rows_of(self.run_foretime("rank", "gpu_model.foretime", "gpu.jsonl", "--dags", self.dags).stdout)
        self.assertEqual(len(rows), len(self.states))

        # Models of programs for CPUs do not score them, nor the other way round, nor does either go on with the other's
        # records.
        self.run_foretime(
            "data",
            "pack-records",
            "-o",
            "cpu.foretime",
            ANSOR / "records.jsonl.gz",
            "--dags",
            ANSOR / "dags.jsonl.gz",
            "--most",
            "5",
        )
        self.train("cpu.foretime", "cpu_run")
        self.run_foretime("export", "cpu_run", "cpu_model.foretime")
        done = self.run_foretime("rank", "cpu_model.foretime", "gpu.jsonl", "--dags", self.dags, code=3)
        self.assertIn("and the model was trained on programs for CPUs", done.stderr)
        done = self.run_foretime(
            "rank", "gpu_model.foretime", ANSOR / "records.jsonl.gz", "--dags", ANSOR / "dags.jsonl.gz", code=3
        )
        self.assertIn("and the model was trained on programs for GPUs", done.stderr)
        done = self.run_foretime(
            "finetune",
            "cpu_model.foretime",
            "gpu.jsonl",
            "--dags",
            self.dags,
            "--steps",
            2,
            "--take-worse",
            "-o",
            "x.foretime",
            code=3,
        )
        self.assertIn("records of programs for GPUs", done.stderr)
        done = self.run_foretime(
            "train",
            "--quiet",
            SOURCE / "configs" / "auto_scheduler.yaml",
            "data.root=.",
            "data.train=[cpu.foretime, gpu.foretime]",
            "run.directory=mixed",
            code=3,
        )
        self.assertIn("263", done.stderr)

    def test_a_card_that_is_described(self):
        self.write("card.yaml", CARD.replace("TARGET", TARGET))
        self.pack("--targets", "card.yaml")
        described = self.json_of("data", "inspect", "--json", "gpu.foretime")
        self.assertTrue(described)
        self.train("gpu.foretime", "run", "data.targets=[card.yaml]")
        self.run_foretime("export", "run", "model.foretime")
        (machine,) = self.json_of("bundle", "show", "model.foretime")["machines"]
        self.assertEqual(machine["hardware"]["gpu"], GPU)
        self.assertEqual(machine["hardware"]["cores"], 20)
        self.pack("--hardware", "multiprocessors=20", "threads_per_block=512")

    def test_what_is_not_known_of_a_gpu_is_refused(self):
        self.write("bare.jsonl", self.records("cuda", [0] * 8))
        done = self.pack(records=("bare.jsonl",), code=3)
        self.assertIn("bare.jsonl:1: target 'cuda': how many threads a block may have", done.stderr)
        self.write("limited.jsonl", self.records("cuda -max_threads_per_block=1024", [0] * 8))
        guessed = "(a cuda GPU, taken for sm_70): their caches and rates are guessed"
        self.assertIn(guessed, self.pack(records=("limited.jsonl",)).stdout)
        # CPUs and GPUs in one collection, and hardware of one kind for records of the other.
        self.write("llvm.jsonl", self.records("llvm -mcpu=skylake", [8, 64, 64, 0, 0, 0, 0, 0]).splitlines()[-1] + "\n")
        done = self.pack(records=("gpu.jsonl", "llvm.jsonl"), code=3)
        self.assertIn("is that of a CPU, after records of GPUs", done.stderr)
        done = self.pack("--hardware", "cores=8", code=3)
        self.assertIn("the hardware that was chosen for all records is a CPU (no multiprocessors)", done.stderr)
        self.write("cpu.yaml", CARD.replace('"multiprocessors": 20', '"multiprocessors": 0').replace("TARGET", TARGET))
        done = self.pack("--targets", "cpu.yaml", code=3)
        self.assertIn("is that of a GPU, but machine card is a CPU", done.stderr)
