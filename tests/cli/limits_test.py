"""Inputs and machines beyond what can work: memory, sizes of settings, numbers beyond float32, files of newer versions."""
import json
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

try:
    import numpy
except ImportError:
    numpy = None

from program import FORETIME, LIMIT, SAMPLES, SOURCE, ProgramTest, environment
from queue_case import QueueTest


def limited(kibibytes):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (kibibytes << 10, kibibytes << 10))


class MemoryTest(QueueTest):
    def run_limited(self, kibibytes, *arguments):
        return subprocess.run(
            [FORETIME, *map(str, arguments)],
            env=environment(),
            cwd=self.folder,
            preexec_fn=limited(kibibytes),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def expect_out_of_memory(self, text):
        (line,) = [line for line in text.splitlines() if line.startswith("foretime: ")]
        self.assertRegex(
            line, r"^foretime: out of memory: .*(can't allocate memory: you tried to allocate \d+ bytes|bad_alloc)"
        )
        self.assertIn("sampler.max_segment_nodes", line)
        self.assertNotIn("frame #", text)

    HUGE = dict(model__hidden=60000, model__layers=1, trainer__steps=2)  # 14 GB in one matrix of weights

    # Promise signals/memory: out of memory is one line with advice and exit code 8; a job that meets it is tried twice
    def test_a_training_that_runs_out_of_memory_says_so_in_a_line(self):
        done = self.run_limited(2 << 20, *self.training(**self.HUGE))
        self.assertEqual(done.returncode, 8, done.stderr)
        self.expect_out_of_memory(done.stderr)
        self.assertRegex((self.folder / "run/log.txt").read_text().splitlines()[-1], "failed: out of memory: ")

    # Promise signals/memory
    def test_a_job_that_runs_out_of_memory_is_tried_twice(self):
        self.write("job.yaml", (self.folder / "base.yaml").read_text().replace("hidden: 8", "hidden: 60000"))
        self.foretime("submit", "job.yaml")
        agent = self.run_limited(3 << 20, "agent", "--data-root", SAMPLES, "--until-empty", "--retry-seconds", "0.1")
        self.assertEqual(agent.returncode, 7, agent.stderr)
        job = self.jobs()[0]
        self.assertEqual((job["state"], job["attempt"]), ("failed", 2), job)
        self.assertRegex(job["error"], r"^exit code 8 \(out of memory\)")

    def test_a_job_that_is_killed_says_how_much_memory_it_had(self):
        self.write("job.yaml", (self.folder / "base.yaml").read_text().replace("steps: 6", "steps: 1000000"))
        self.foretime("submit", "job.yaml", "--max-attempts", 1)
        agent = self.agent("--cpus", 1, "--until-empty")
        self.wait_for("a step", lambda: self.jobs()[0]["step"] > 2)
        trainings = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.is_job(pid)]
        self.assertEqual(len(trainings), 1)
        os.kill(trainings[0], 9)
        self.finish(agent, 7)
        job = self.jobs()[0]
        self.assertEqual(job["state"], "dead")
        peak = re.match(r"killed by signal 9 \(Killed\); its largest process had (\d+) MiB", job["error"])
        self.assertTrue(peak, job["error"])
        self.assertGreater(int(peak[1]), 30)

    def is_job(self, pid):
        try:
            folder = pathlib.Path(os.readlink(f"/proc/{pid}/cwd"))
            return (
                self.folder.resolve() in folder.parents
                and folder.name == "attempt-1"
                and b"train" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            )
        except OSError:
            return False

    def test_a_limit_that_the_libraries_do_not_fit_in_is_named_before_they_hang(self):
        for command in (["doctor"], self.training()):
            done = self.run_limited(300 << 10, *command)
            self.assertEqual(done.returncode, 8, done.stdout + done.stderr)
            self.assertRegex(done.stderr, r"307200 KiB of address space \(ulimit -v\)")

    def test_no_limit_makes_a_command_hang(self):
        """OpenBLAS takes memory for each of its threads before main begins, and tries for ever where there is none."""
        threads = {name: value for name, value in environment().items() if name != "OMP_NUM_THREADS"}
        needed = 112 + 128 * len(os.sched_getaffinity(0))
        for mebibytes in (needed - 120, needed - 60, needed - 1, needed + 1, needed + 400):
            for command in (["--version"], ["doctor"]):
                done = subprocess.run(
                    [FORETIME, *command],
                    env=threads,
                    cwd=self.folder,
                    preexec_fn=limited(mebibytes << 10),
                    capture_output=True,
                    text=True,
                    timeout=LIMIT,
                )
                self.assertEqual(done.returncode, 8 if mebibytes < needed or command == ["doctor"] else 0, done.stderr)
                if done.returncode:
                    self.assertRegex(
                        done.stderr,
                        rf"^foretime: out of memory: a process may have {mebibytes << 10} KiB of address space .*OMP_NUM_THREADS=1.*\n$",
                    )

    def test_doctor_names_a_limit_of_memory(self):
        done = self.run_limited(4 << 20, "doctor")
        self.assertRegex(done.stdout, r"memory +at most 4.0 GiB of address space for a process \(ulimit -v\)")


class SettingsTest(ProgramTest):
    def test_very_large_settings_are_refused_at_once(self):
        keys = "".join(f"k{i}: 1\n" for i in range(1000000))
        self.write("keys.yaml", keys)
        with open(self.folder / "empty.yaml", "wb") as file:
            file.truncate(1 << 30)
        for name in ("keys.yaml", "empty.yaml", "/dev/zero"):
            for command in ("config", "train", "submit"):
                done = subprocess.run(
                    [FORETIME, command, name],
                    env=environment(),
                    cwd=self.folder,
                    preexec_fn=limited(4 << 20),
                    capture_output=True,
                    text=True,
                    timeout=LIMIT,
                )
                self.assertEqual(done.returncode, 2, done.stderr)
                # `submit` reads regular files only.
                self.assertIn(
                    "expected a "
                    + (
                        "sweep or settings"
                        if command == "submit" and name == "/dev/zero"
                        else "YAML file of at most 1048576"
                    ),
                    done.stderr,
                )

    def test_settings_that_a_run_could_not_read_again_are_refused(self):
        names = ",".join(f"C{i}.npz" for i in range(90000))
        for count, code in ((names, 2), (names[:300000].rpartition(",")[0], 0)):
            self.write("files.yaml", f"data: {{format: programs, train: [{count}]}}\n")
            done = self.run_foretime("config", "files.yaml", code=code)
            if code:
                self.assertRegex(
                    done.stderr, r"files.yaml: found settings that take \d{7} bytes .*expected at most 1048576"
                )
            else:
                self.write("again.yaml", done.stdout)
                self.assertEqual(self.run_foretime("config", "again.yaml").stdout, done.stdout)

    def test_settings_come_through_a_pipe(self):
        done = subprocess.run(
            [FORETIME, "config", "/dev/stdin"],
            input="trainer: {steps: 7}\n",
            env=environment(),
            capture_output=True,
            text=True,
        )
        self.assertIn("steps: 7", done.stdout, done.stderr)

    def test_numbers_beyond_float32_are_refused_with_their_key(self):
        cases = {
            "optimizer.learning_rate": ("1e39", "1e300"),
            "optimizer.epsilon": ("1e-60",),
            "optimizer.beta1": ("0.99999999999",),
            "loss.temperature": ("1e39", "1e-50"),
            "averaging.decay": ("0.9999999999",),
        }
        self.write("base.yaml", "trainer: {steps: 2}\n")
        for key, values in cases.items():
            for value in values:
                for command in (["config", "base.yaml"], ["train", "base.yaml"], ["submit", "base.yaml", "--dry-run"]):
                    text = self.run_foretime(*command, f"{key}={value}", code=2).stderr
                    self.assertRegex(text, rf"{re.escape(key)}: found \S+, expected .*float32", command)
        sweep = {
            "settings": "base.yaml",
            "method": "grid",
            "metric": {"name": "holdout/mae", "goal": "minimize"},
            "parameters": {"optimizer.learning_rate": {"values": [1e-3, 1e39]}},
        }
        self.write(
            "base.yaml",
            "data: {format: programs, train: [C1.npz], holdout: 0.2}\nloss: {type: huber}\ntrainer: {steps: 2, metric: holdout/mae}\n",
        )
        self.write("sweep.yaml", sweep)
        self.assertIn("optimizer.learning_rate", self.run_foretime("submit", "sweep.yaml", "--dry-run", code=2).stderr)

    def test_a_step_beyond_float32_is_a_training_that_diverges(self):
        for changes in (
            dict(optimizer__learning_rate=1e38),
            dict(optimizer__learning_rate=1e20, optimizer__weight_decay=1e20, optimizer__type="adamw"),
        ):
            self.assertIn("training has diverged", self.train(code=3, **changes).stderr)


class VersionsTest(ProgramTest):
    """A file of a newer version is refused, whichever number in it says so."""

    # Every version that a source writes, as `name = number` or `"name": number` there, and the test that raises it.
    KNOWN = {
        "coordinator/checkpoint_store.cpp: kFormat": "here",
        "worker/state/training_state.cpp: kFormat": "here",
        "data/files/packed_file.h: kVersion": "here",
        "inference/bundle/bundle.h: kBundleVersion": "here",
        "python/foretime/trial.py: format": "here",
        "python/foretime/groups.py: version": "numpy's __array_interface__, no file",
        "jobs/queue/queue.h: kQueueProtocol": "VersionSkew.AQueueOfAnotherProtocolIsRefused",
    }

    # Promise storage/newer-version
    def test_every_version_that_is_written_is_known_here(self):
        pattern = re.compile(
            r"""\b(k\w*(?:Version|Format|Protocol)\w*) = \d+\b|["'](format|version|format_version)["']: ?\d+"""
        )
        found = set()
        for folder in (
            "base",
            "history",
            "configs",
            "data",
            "plans",
            "inference",
            "python",
            "models",
            "comm",
            "sharding",
            "coordinator",
            "worker",
            "jobs",
            "experiments",
            "server",
            "cli",
        ):
            for path in sorted((SOURCE / folder).rglob("*")):
                if path.suffix in (".cpp", ".h", ".py", ".lua") and "node_modules" not in path.parts:
                    for match in pattern.finditer(path.read_text()):
                        found.add(f"{path.relative_to(SOURCE)}: {match[1] or match[2]}")
        self.assertEqual(found, set(self.KNOWN))

    def raise_numbers(self, path):
        """The file's bytes, once for each version number in it, which is one larger there."""
        data = path.read_bytes()
        if data[:8] == b"\x89FTPACK\n":  # magic, endian mark, version
            yield "version", data[:12] + struct.pack("<I", struct.unpack("<I", data[12:16])[0] + 1) + data[16:]
            return
        for match in re.finditer(rb'"(format|version|format_version)\\?":\s*\\?"?(\d+)', data):
            yield match[1].decode(), data[: match.start(2)] + str(int(match[2]) + 1).encode() + data[match.end(2) :]

    # Promise storage/newer-version: a file of a newer version is refused; a newer checkpoint does not count as damaged
    def test_one_more_is_refused(self):
        self.train(trainer__steps=2)
        self.run_foretime("export", "run", "model.foretime")
        self.run_foretime("data", "pack", SAMPLES / "C1.npz", "-o", "packed.foretime", "--format", "programs")
        checkpoint = self.folder / "run/checkpoints/step-00000002"
        readers = {
            checkpoint
            / "manifest.json": [
                ["export", "run", "new.foretime"],
                ["evaluate", "run"],
                [*self.training(trainer__steps=3)],
            ],
            checkpoint
            / "state.json": [
                ["export", "run", "new.foretime"],
                ["evaluate", "run"],
                [*self.training(trainer__steps=3)],
            ],
            self.folder
            / "model.foretime": [["bundle", "show", "model.foretime"], ["rank", "model.foretime", SAMPLES / "C1.npz"]],
            self.folder
            / "packed.foretime": [["data", "inspect", "packed.foretime"], ["data", "verify", "packed.foretime"]],
        }
        for path, commands in readers.items():
            kept, changes = path.read_bytes(), 0
            for name, changed in self.raise_numbers(path):
                changes += 1
                path.write_bytes(changed)
                if path.name == "state.json":
                    self.list_again(checkpoint)
                for command in commands:
                    before = sorted((self.folder / "run/checkpoints").iterdir())
                    text = self.run_foretime(*command, code=3).stderr
                    self.assertRegex(text, rf"{path.name}.*(version|format)", command)
                    self.assertEqual(
                        sorted((self.folder / "run/checkpoints").iterdir()),
                        before,
                        "a newer checkpoint is no damaged one",
                    )
                path.write_bytes(kept)
                if path.name == "state.json":
                    self.list_again(checkpoint)
            self.assertGreater(changes, 0, path)
        self.run_foretime("evaluate", "run")

    @unittest.skipIf(numpy is None, "needs python3-numpy")
    def test_one_more_is_refused_by_trials_in_python(self):
        (self.folder / "runs/trial/checkpoints/step-00000002").mkdir(parents=True)
        path = self.write("runs/trial/checkpoints/step-00000002/manifest.json", {"files": {}, "format": 1, "step": 2})
        script = "import foretime; print(foretime.Trial().first_step)"
        python = lambda: subprocess.run(
            [sys.executable, "-c", script],
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**environment(), "PYTHONPATH": str(SOURCE / "python")},
        )
        self.assertEqual(python().stdout, "2\n", python().stderr)
        path.write_bytes(dict(self.raise_numbers(path))["format"])
        self.assertIn("format 2, expected 1", python().stderr)

    @staticmethod
    def list_again(checkpoint):
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        for name, entry in manifest["files"].items():
            data = (checkpoint / name).read_bytes()
            entry.update(bytes=len(data), crc32=zlib.crc32(data))
        (checkpoint / "manifest.json").write_text(json.dumps(manifest))
