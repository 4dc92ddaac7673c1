"""What tests on three hosts with Slurm and Redis share."""
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import unittest

from cluster import SOURCE, Cluster, missing

FORETIME = pathlib.Path(os.environ.get("FORETIME", SOURCE / "build/release/cli/foretime")).resolve()
SAMPLES = SOURCE / "samples/resnet18_conv2d"
SETTINGS = SOURCE / "configs/quickstart.yaml"
QUICK = {
    "data.root": SAMPLES,
    "trainer.steps": 20,
    "trainer.eval_every": 10,
    "trainer.log_every": 1,
    "trainer.baselines": "[]",
    # A small model and few candidates: a step takes a hundredth of the time, and the hosts share two cores.
    "model.hidden": 8,
    "sampler.candidates_per_group": 8,
    "data.max_eval_candidates": 20,
}


def training(directory, **more):
    values = {**QUICK, "run.directory": directory, **{name.replace("__", "."): value for name, value in more.items()}}
    return [FORETIME, "train", SETTINGS, "--quiet", *(f"{name}={value}" for name, value in values.items())]


class OnCluster(unittest.TestCase):
    HOSTS, CPUS = 3, 4

    @classmethod
    def setUpClass(cls):
        if why := missing(slurm=True, redis=True):
            raise unittest.SkipTest(why)
        # Not below /tmp, where each host has its own.
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretime-cluster-", dir="/var/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.cluster = Cluster(cls.folder, hosts=cls.HOSTS, slurm=True, redis=True, cpus=cls.CPUS)
        cls.addClassCleanup(cls.cluster.down)
        cls.cluster.up()
        cls.work = cls.folder / "work"
        cls.work.mkdir()

    def run_on(self, host, command, code=0):
        done = self.cluster.run(host, command)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout + done.stderr

    def losses(self, run):
        lines = map(json.loads, (self.work / run / "metrics.jsonl").read_text().splitlines())
        losses = [(line["step"], line["loss"]) for line in lines if line["kind"] == "train"]
        self.assertEqual(len(losses), QUICK["trainer.steps"])
        return losses

    def weights(self, run):
        newest = max((self.work / run / "checkpoints").glob("step-*"))
        return hashlib.sha256((newest / "model.safetensors").read_bytes()).hexdigest()
