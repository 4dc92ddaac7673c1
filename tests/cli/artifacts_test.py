"""Jobs of machines that share a Redis and no folder: checkpoints travel by the artifact store."""
import json
import shutil
import subprocess
import unittest

from program import LIMIT, SAMPLES, SOURCE, ProgramTest, wait_until
from queue_case import BASE, SWEEP

LONG = BASE.replace("steps: 6, eval_every: 3", "steps: 2000, eval_every: 50")


@unittest.skipUnless(shutil.which("redis-server"), "needs redis-server")
class ArtifactsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.redis = f"unix://{self.folder}/redis.sock"
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", "redis.sock", "--save", ""],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )
        self.processes = [server]
        self.variables = {}
        self.addCleanup(self.end)
        wait_until((self.folder / "redis.sock").exists)
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)))
        self.write("long.yaml", LONG.replace("SAMPLES", str(SAMPLES)) + "checkpoint: {every_steps: 20}\n")

    def end(self):
        for process in self.processes:
            process.kill()
            process.communicate()

    def foretime(self, *arguments, code=0, machine="laptop", **more):
        done = self.run_foretime(
            *arguments, "--redis", self.redis, "--runs", f"runs-{machine}", code=code, **self.variables, **more
        )
        return done.stderr if code else done.stdout

    def agent(self, machine, *options):
        """Its run root is its own."""
        process = self.start(
            "agent",
            "--data-root",
            SAMPLES,
            "--until-empty",
            "--redis",
            self.redis,
            "--runs",
            f"runs-{machine}",
            *options,
            **self.variables,
        )
        self.processes.append(process)
        return process

    def finish(self, process):
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        return errors

    def job(self, id):
        return json.loads(self.foretime("status", id, "--json"))

    def lose(self, agent, id):
        """Kills an agent, and ends the lease of its job at once instead of after its term."""
        agent.kill()
        agent.wait(LIMIT)
        subprocess.run(
            ["redis-cli", "-s", self.folder / "redis.sock", "zadd", "{foretime}:leases", "xx", "0", id],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def submit(self, file):
        self.foretime("submit", file)
        return json.loads(self.foretime("status", "--json"))["jobs"][0]["id"]

    def moves(self, store):
        id = self.submit("long.yaml")
        first = self.agent("a", "--artifacts", store)
        step = wait_until(lambda: (self.job(id)["artifacts"].get("last") or {}).get("step"))
        self.assertGreaterEqual(step, 20)
        self.lose(first, id)
        self.finish(self.agent("b", "--artifacts", store))
        job = self.job(id)
        self.assertEqual((job["state"], job["results"], job["fence"]), ("succeeded", 1, 2))
        run = self.folder / "runs-b" / id / "attempt-2"
        self.assertIn("continues from the stored checkpoint", (run / "output.log").read_text())
        self.assertGreater(
            min(
                line["step"]
                for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
                if line.get("kind") == "train"
            ),
            20,
        )
        # A machine that ran nothing, and one that has the run, give out the same model.
        self.foretime("export", id, "best.foretime")
        self.foretime("export", id, "local.foretime", machine="b")
        self.assertEqual((self.folder / "best.foretime").read_bytes(), (self.folder / "local.foretime").read_bytes())
        self.foretime("export", id, "folder")
        self.assertTrue((self.folder / "folder/manifest.json").exists())
        return id

    # Promise artifacts/job-taken-over
    def test_a_job_goes_on_elsewhere_and_its_model_is_exported_anywhere_by_redis(self):
        id = self.moves("redis")
        self.assertIn(" in redis (", self.foretime("status", id))
        self.assertIn("MiB of artifacts are in Redis", self.foretime("queue"))

    def test_a_job_goes_on_elsewhere_and_its_model_is_exported_anywhere_by_a_folder(self):
        (self.folder / "shared").mkdir()
        id = self.moves("folder:shared")
        stored = sorted(path.parent.name for path in (self.folder / "shared").rglob("manifest.json"))
        self.assertEqual(len(stored), 1, "of a job that has succeeded the best checkpoint is kept, and no other")
        self.assertIn(f" in folder:{self.folder.resolve()}/shared", self.foretime("status", id))

    def test_a_job_goes_on_elsewhere_and_its_model_is_exported_anywhere_by_s3(self):
        server = subprocess.Popen(
            ["python3", SOURCE / "tests/support/s3_server.py", "models", "KEYID", "s3cr3t+key"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(server)
        self.variables = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}",
            "AWS_ACCESS_KEY_ID": "KEYID",
            "AWS_SECRET_ACCESS_KEY": "s3cr3t+key",
        }
        id = self.moves("s3://models/of-tests")
        self.assertIn(" in s3://models/of-tests/", self.foretime("status", id))
        self.variables["AWS_SECRET_ACCESS_KEY"] = "another"
        message = self.foretime("export", id, "again.foretime", code=2)
        self.assertIn("403 SignatureDoesNotMatch", message)
        self.assertNotIn("another", message)
        self.variables = {}
        self.assertIn("AWS_ACCESS_KEY_ID is not set", self.foretime("export", id, "again.foretime", code=2))

    # Promise storage/shared-store: queues that share a store leave each other's artifacts alone
    def test_queues_that_share_a_store_leave_each_others_artifacts_alone(self):
        """Equal jobs have equal ids in both queues. What the second one stores and tidies must not cost the first one its model."""
        shared = self.folder / "shared"
        shared.mkdir()
        for queue in ("first", "second"):
            self.foretime("submit", "base.yaml", "--prefix", queue)
            self.finish(self.agent(queue, "--artifacts", "folder:shared", "--prefix", queue))
            if queue == "first":
                (next(shared.glob("*/*")) / "1-my-notes/x").mkdir(parents=True)
        id = json.loads(self.foretime("status", "--json", "--prefix", "first"))["jobs"][0]["id"]
        self.assertEqual(len(list(shared.glob(f"*/{id}"))), 2, "a folder for each queue")
        for queue in ("first", "second"):  # on a machine that ran nothing
            self.foretime("export", id, f"{queue}.foretime", "--prefix", queue)
        # One queue forgets its job and tidies up.
        self.finish(
            self.agent("second", "--artifacts", "folder:shared", "--prefix", "second", "--keep-days", 0.1 / 86400)
        )
        self.foretime("export", id, "again.foretime", "--prefix", "first")
        self.assertTrue(list(shared.glob("*/*/1-my-notes/x")))

    def test_evaluations_and_exports_of_the_queue_find_models_of_other_machines(self):
        self.write("sweep.yaml", SWEEP + "then: [{evaluate: {files: [C11.npz]}}, export]\n")
        self.foretime("submit", "sweep.yaml", "--json")
        trainer = self.agent("a", "--artifacts", "redis", "--jobs", 1)
        jobs = lambda kind: [
            job for job in json.loads(self.foretime("status", "--json"))["jobs"] if job["kind"] == kind
        ]
        wait_until(lambda: all(job["state"] == "succeeded" for job in jobs("train")))
        trainer.kill()
        shutil.rmtree(self.folder / "runs-a")
        self.finish(self.agent("b", "--artifacts", "redis"))
        for kind in ("evaluate", "export"):
            self.assertEqual({job["state"] for job in jobs(kind)}, {"succeeded"}, jobs(kind))
        exported = jobs("export")[0]["id"]
        self.foretime("export", exported, "of-export.foretime")

    def test_a_quota_that_is_full_ends_no_job_and_is_told(self):
        self.foretime("submit", "base.yaml")
        self.foretime("queue", "--artifact-mib", 0)
        self.finish(self.agent("a", "--artifacts", "redis"))
        job = json.loads(self.foretime("status", "--json"))["jobs"][0]
        self.assertEqual(job["state"], "succeeded")
        self.assertIn("not stored", self.foretime("status", job["id"]))
        self.assertIn("bytes of a quota of 0 (foretime queue --artifact-mib)", self.foretime("status", job["id"]))
        message = self.foretime("export", job["id"], "best.foretime", code=2)
        self.assertIn("nor in an artifact store: agents store checkpoints with --artifacts", message)

    def test_stores_that_there_are_not_are_refused(self):
        for store, expected in (
            ("ftp://x", "expected redis, folder:PATH or s3://BUCKET/PREFIX"),
            ("folder:none", "expected a folder"),
        ):
            done = self.run_foretime("agent", "--artifacts", store, "--redis", self.redis, code=2)
            self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    unittest.main()
