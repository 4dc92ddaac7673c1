"""Runs the foretime program for the tests of this folder."""
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("FORETIME_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
FORETIME = os.environ.get("FORETIME", str(SOURCE / "build/release/cli/foretime"))
SYNTHESIZE_GRAPH = os.environ.get(
    "FORETIME_SYNTHESIZE_GRAPH", str(SOURCE / "build/release/tests/support/synthesize_graph")
)
PLAN_ARRAYS = os.environ.get("FORETIME_PLAN_ARRAYS", str(SOURCE / "build/release/tests/inference/plan_arrays"))
SAMPLES = SOURCE / "samples" / "resnet18_conv2d"
HAS_BOARD = (pathlib.Path(FORETIME).parent / "core/foretime-board").exists()
NO_BOARD = "this build has no board and no reports: tools/install-deps.sh --board"
sys.path.append(str(SOURCE / "tests/support"))

from messages import MessageTest  # noqa: E402
from waiting import LIMIT, wait_for, wait_until  # noqa: E402, F401


def data_dir():
    """The folder with the public data sets, or None."""
    named = os.environ.get("FORETIME_DATA")
    beside = SOURCE.parent / "shared" / "data"
    return pathlib.Path(named) if named else beside if beside.is_dir() else None


def environment():
    """One rank to a core is not ours to choose in a test, CI runs as root, and no queue of the caller's is to be touched.

    Open MPI 5 knows the names with PRTE, 4 those with OMPI."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("FORETIME_")}
    return {
        **own,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "OMP_NUM_THREADS": "1",
    }


def launch(ranks):
    return ["mpirun", "-n", str(ranks)] if ranks > 1 else []


def flip_byte(path, place=None, bits=1):
    """Damages a file at `place`, by default in its middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if place is None else place] ^= bits
    path.write_bytes(data)


class ProgramTest(MessageTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretime-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.wait_for_redis_to_end)

    def wait_for_redis_to_end(self):
        """An embedded one stops by itself when nobody uses it; the folder is removed afterwards."""
        wait_until(lambda: not (self.folder / "runs/.redis/redis.sock").exists())

    def rows(self, path):
        return self.rows_of((self.folder / path).read_text())

    @staticmethod
    def rows_of(text):
        """The rows of a table in CSV."""
        return list(csv.DictReader(io.StringIO(text)))

    def json_of(self, *arguments, **more):
        """What a command prints as JSON."""
        return json.loads(self.run_foretime(*arguments, **more).stdout)

    def lines_of(self, run="run"):
        """What a run reported, line by line."""
        return [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]

    def start(self, *arguments, ranks=1, **variables):
        """The program in the background."""
        return subprocess.Popen(
            launch(ranks) + [FORETIME, *map(str, arguments)],
            env={**environment(), **variables},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_training(self, ranks=1, variables=None, **changes):
        return self.start(*self.training(**changes), ranks=ranks, **(variables or {}))

    def run_foretime(self, *arguments, ranks=1, code=0, **variables):
        done = subprocess.run(
            launch(ranks) + [FORETIME] + [str(a) for a in arguments],
            env={**environment(), **variables},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
        return done

    def synthesize(self, file, nodes, configurable, configurations, seed=1):
        """Writes a made-up layout graph to an .npz or a packed data set."""
        subprocess.run(
            [SYNTHESIZE_GRAPH, *map(str, (file, nodes, configurable, configurations, seed))],
            cwd=self.folder,
            check=True,
            timeout=LIMIT,
        )

    def plan_arrays(self, bundle, file, out, *words):
        """Writes the arrays that a bundle's model reads of the file's first group."""
        subprocess.run([PLAN_ARRAYS, bundle, file, out, *words], cwd=self.folder, check=True, timeout=LIMIT)

    def settings(self, **changes):
        """A quick run on two measured workloads; changes are data.x style keys with __ for the dot."""
        values = {
            "data.format": "programs",
            "data.root": str(SAMPLES),
            "data.train": "[C1.npz, C12.npz]",
            "data.test": "[C10.npz]",
            "data.holdout": 0.2,
            "data.max_eval_candidates": 20,
            "model.type": "gcn",
            "model.hidden": 16,
            "model.readout": "[mean]",
            "model.features.transform": "zscore",
            "loss.type": "huber",
            "loss.target": "log_runtime",
            "loss.standardize_target": "true",
            "sampler.groups_per_batch": 2,
            "sampler.candidates_per_group": 6,
            "sampler.samples_per_group": 4,
            "trainer.steps": 6,
            "trainer.metric": "holdout/kendall_tau",
            "trainer.device": "cpu",
            "trainer.threads": 1,
            "run.directory": str(self.folder / "run"),
        }
        values.update({key.replace("__", "."): value for key, value in changes.items()})
        return [f"{key}={value}" for key, value in values.items()]

    def write(self, name, content):
        """The path of a file of this folder with these bytes, this text, or JSON of what is neither."""
        path = self.folder / name
        path.write_bytes(
            content
            if isinstance(content, bytes)
            else (content if isinstance(content, str) else json.dumps(content)).encode()
        )
        return path

    def empty_settings(self):
        """A file without settings that matter."""
        return self.write("settings.yaml", "run: {directory: runs/x}\n")

    def training(self, **changes):
        return "train", "--quiet", self.empty_settings(), *self.settings(**changes)

    def train(self, ranks=1, code=0, **changes):
        return self.run_foretime(*self.training(**changes), ranks=ranks, code=code)

    def checkpoint(self, step, run="run"):
        """The bytes of every file of a checkpoint."""
        folder = self.folder / run / "checkpoints" / f"step-{step:08}"
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
