"""A test case with a sweep, agents and the Redis that foretime starts."""
import json
import os
import subprocess

from program import FORETIME, LIMIT, SAMPLES, ProgramTest, environment, wait_for

BASE = """
data: {format: programs, root: SAMPLES, train: [C1.npz, C12.npz], holdout: 0.2, max_eval_candidates: 20}
model: {type: gcn, hidden: 8, readout: [mean], features: {transform: zscore}}
loss: {type: huber, target: log_runtime, standardize_target: true}
sampler: {groups_per_batch: 2, candidates_per_group: 6, samples_per_group: 4}
trainer: {steps: 6, eval_every: 3, metric: holdout/mae, metric_goal: minimize, device: cpu, threads: 1}
"""
SWEEP = """
name: widths
settings: base.yaml
method: grid
metric: {name: holdout/mae, goal: minimize}
parameters:
  model.hidden: {values: [8, 12]}
"""


class QueueTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.processes = []
        self.addCleanup(self.kill_all)
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)))
        self.write_sweep()

    def write_sweep(self, more="", text=SWEEP):
        self.write("sweep.yaml", text + more)

    def kill_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def foretime(self, *arguments, code=0, **more):
        done = self.run_foretime(*arguments, code=code, **more)
        return done.stderr if code else done.stdout

    def json(self, *arguments):
        return json.loads(self.foretime(*arguments, "--json"))

    def background(self, *arguments):
        self.processes.append(self.start(*arguments))
        return self.processes[-1]

    def agent(self, *arguments):
        return self.background("agent", "--data-root", SAMPLES, *arguments)

    def finish(self, process, code=0):
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, code, output + errors)
        return output

    def jobs(self, *arguments):
        return self.json("status", *arguments)["jobs"]

    def wait_for(self, what, condition):
        return wait_for(what, condition, lambda: self.foretime("status"))

    def peak_kib(self, *arguments, out=subprocess.DEVNULL):
        """Runs the program to its end: the most memory that it held."""
        child = subprocess.Popen([FORETIME, *arguments], cwd=self.folder, stdout=out, env=environment())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        return usage.ru_maxrss
