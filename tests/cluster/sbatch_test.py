"""The files of examples/slurm, submitted as they are, through time limits, pre-emption, requeues and lost nodes."""
import json
import os
import re
import time
import unittest

from cluster import SOURCE, wait_for
from on_cluster import FORETIME, QUICK, SETTINGS, OnCluster, training

SBATCH = SOURCE / "examples/slurm"


class OnSlurm(OnCluster):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slow = cls.work / "slow-foretime"  # its trainings leave the cores to others
        cls.slow.write_text(
            f"#!/bin/sh\nLD_PRELOAD={os.environ.get('FORETIME_SLOW_STEPS', '')} exec {FORETIME} \"$@\"\n"
        )
        cls.slow.chmod(0o755)

    def sbatch(self, file, *words, arguments=(), **variables):
        """The id of a job that one of the files makes."""
        environment = {"FORETIME": str(FORETIME), "FORETIME_DATA_ROOT": "/", **variables}
        done = self.cluster.run("h1", ["sbatch", "--parsable", *words, SBATCH / file, *arguments], env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def job(self, number):
        """What `scontrol show job` knows."""
        said = self.run_on("h1", ["scontrol", "show", "job", "-o", number])
        return dict(re.findall(r"(\w+)=(\S*)", said.splitlines()[0]))

    def log(self, number):
        return "".join(path.read_text() for path in sorted(self.work.glob(f"foretime-*-{number}*.log")))

    def wait_for_end(self, number):
        ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")
        wait_for(
            "end of the Slurm job",
            lambda: self.job(number)["JobState"] in ends,
            lambda: f"{self.job(number)}\n{self.log(number)[-3000:]}",
        )
        return self.job(number)

    def nodes_of(self, number):
        return self.run_on("h1", ["scontrol", "show", "hostnames", self.job(number)["NodeList"]]).split()

    def node_beside_the_script(self, number):
        """One of a job's nodes, and not that on which its script runs."""
        return next(node for node in self.nodes_of(number) if node != self.job(number)["BatchHost"])

    def bring_back(self, host):
        """Slurm may have seen by itself that it is there again."""
        self.cluster.run("h1", ["scontrol", "update", f"nodename={host}", "state=resume"])
        wait_for(
            f"{host} that is up",
            lambda: self.run_on("h1", f"sinfo -h -p work -n {host} -o %t").strip() in ("idle", "mix", "alloc"),
        )

    def urgent(self, hosts):
        """A short job that takes hosts away from others."""
        self.run_on(
            "h1", ["sbatch", "-p", "urgent", "--exclusive", "-w", hosts, "-o", "/dev/null", "--wrap", "sleep 1"]
        )


class TrainSbatchTest(OnSlurm):
    """train.sbatch. A training without end goes on from where it was, whatever ends its Slurm job."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # It takes a minute in any case, so it begins first, on one node.
        cls.limited = cls().endless("limited", "--nodes=1", "--time=1", "--signal=TERM@15", "-w", "h1")

    def runTest(self):
        """Makes `cls()` possible."""

    def submit(self, name, *words, program=FORETIME, **more):
        arguments = [word for word in training(name, **more)[2:] if word != "--quiet"]
        return self.sbatch("train.sbatch", *words, arguments=arguments, FORETIME=str(program))

    def endless(self, name, *words):
        number = self.submit(
            name,
            *words,
            program=self.slow,
            trainer__steps=1000000,
            trainer__eval_every=1000000,
            checkpoint__every_steps=5,
        )
        self.addCleanup(self.cluster.run, "h1", ["scancel", number])
        return number

    def wait_for_steps(self, name, number, more=10):
        """Until a training has gone on for some steps; the last one."""

        def last():
            lines = self.work / name / "metrics.jsonl"
            steps = re.findall(r'"step":(\d+)', lines.read_text()) if lines.exists() else []
            return int(steps[-1]) if steps else 0

        first = last()
        wait_for(f"{more} steps of {name}", lambda: last() >= first + more, lambda: self.log(number)[-3000:])
        return last()

    def wait_for_second_start(self, name, number):
        """Until the Slurm job has started again, and its training has gone on from a checkpoint; the step of that."""
        wait_for(
            "second start",
            lambda: int(self.job(number).get("Restarts", 0)) >= 1 and self.job(number)["JobState"] == "RUNNING",
            lambda: f"{self.job(number)}\n{self.log(number)[-3000:]}",
        )
        found = wait_for(
            "resumed training",
            lambda: re.findall(r"continues at step (\d+)", self.log(number)),
            lambda: self.log(number)[-3000:],
        )
        self.wait_for_steps(name, number)
        return int(found[-1])

    def cancel(self, *numbers):
        self.run_on("h1", ["scancel", *numbers])
        for number in numbers:
            self.assertEqual(self.wait_for_end(number)["JobState"], "CANCELLED")

    # Promise training/sbatch: `sbatch train.sbatch`, four ranks over two nodes: the bytes of four ranks on one host
    def test_a_training_over_nodes_is_that_of_one_host(self):
        number = self.submit("over-nodes", "--nodes=2", "--ntasks-per-node=2")
        self.run_on("h3", ["mpirun", "-n", "4", *training("one-host")])
        ended = self.wait_for_end(number)
        self.assertEqual(
            (ended["JobState"], ended["ExitCode"], ended["NumNodes"]), ("COMPLETED", "0:0", "2"), self.log(number)
        )
        self.assertEqual(self.weights("over-nodes"), self.weights("one-host"))

    # Promise training/sbatch-time-limit: its time limit: it writes a checkpoint, queues itself again and continues at
    # that step
    def test_at_its_time_limit_it_writes_a_checkpoint_and_queues_itself_again(self):
        step = self.wait_for_second_start("limited", self.limited)
        self.assertIn(f"at step {step}: checkpoint written", self.log(self.limited))
        self.cancel(self.limited)

    # Promise training/sbatch-preempted: its pre-emption by a partition of higher priority: no step is lost
    def test_pre_emption_loses_no_step(self):
        number = self.endless("urgent", "--nodes=2", "-w", "h2,h3", "--exclusive")
        self.wait_for_steps("urgent", number)
        self.urgent("h2,h3")
        step = self.wait_for_second_start("urgent", number)
        self.assertIn(f"at step {step}: checkpoint written", self.log(number))
        self.cancel(number)

    # Promise hosts/slurm-end: at the end of a Slurm job, no slow or hanging rank hides why the others ended
    def test_a_rank_that_ends_later_than_the_others_is_waited_for(self):
        program = self.work / "late-rank"
        program.write_text(
            "#!/bin/bash\n[[ -z $SLURM_RESTART_COUNT ]] || exit 0\n[[ $SLURM_PROCID == 0 ]] || sleep 3\nexit 75\n"
        )
        program.chmod(0o755)
        number = self.sbatch("train.sbatch", "--nodes=2", arguments=["settings.yaml"], FORETIME=str(program))
        ended = self.wait_for_end(number)
        self.assertEqual((ended["JobState"], ended["Restarts"]), ("COMPLETED", "1"), self.log(number))

    # Promise hosts/slurm-end
    def test_a_rank_that_stands_still_does_not_hide_why_the_others_ended(self):
        program = self.work / "standing-rank"
        program.write_text(
            "#!/bin/bash\n[[ -z $SLURM_RESTART_COUNT ]] || exit 0\n[[ $SLURM_PROCID == 0 ]] || sleep 1000\nexit 74\n"
        )
        program.chmod(0o755)
        number = self.sbatch(
            "train.sbatch", "--nodes=2", arguments=["settings.yaml"], FORETIME=str(program), FORETIME_WAIT="5"
        )
        ended = self.wait_for_end(number)
        self.assertEqual((ended["JobState"], ended["Restarts"]), ("COMPLETED", "1"), self.log(number))
        program.write_text("#!/bin/bash\n[[ $SLURM_PROCID == 0 ]] || sleep 1000\nexit 3\n")
        number = self.sbatch(
            "train.sbatch", "--nodes=2", arguments=["settings.yaml"], FORETIME=str(program), FORETIME_WAIT="5"
        )
        ended = self.wait_for_end(number)
        self.assertEqual((ended["JobState"], ended["ExitCode"]), ("FAILED", "3:0"), self.log(number))

    # Promise training/sbatch-requeued: `scontrol requeue`: no step is lost
    def test_a_requeue_by_hand_loses_no_step(self):
        number = self.endless("requeued", "--nodes=2")
        self.wait_for_steps("requeued", number)
        self.run_on("h1", ["scontrol", "requeue", number])
        step = self.wait_for_second_start("requeued", number)
        self.assertIn(f"at step {step}: checkpoint written", self.log(number))
        self.cancel(number)

    # Promise training/sbatch-node-down: `scontrol update state=down` of one of its nodes: it continues elsewhere from
    # the last checkpoint
    def test_a_node_that_is_lost_costs_the_steps_since_the_last_checkpoint(self):
        number = self.endless("node-down", "--nodes=2")
        before = self.wait_for_steps("node-down", number, 20)
        lost = self.node_beside_the_script(number)
        self.run_on("h1", ["scontrol", "update", f"nodename={lost}", "state=down", "reason=test"])
        self.addCleanup(self.bring_back, lost)
        self.assertGreaterEqual(self.wait_for_second_start("node-down", number), before - 10)
        self.assertNotIn(lost, self.nodes_of(number))
        self.cancel(number)

    # Promise training/sbatch-cancelled: `scancel`: it writes a checkpoint and ends for good
    def test_scancel_ends_it_with_a_checkpoint_and_for_good(self):
        number = self.endless("cancelled", "--nodes=2")
        self.wait_for_steps("cancelled", number)
        self.cancel(number)
        wait_for("checkpoint", lambda: "checkpoint written" in self.log(number), lambda: self.log(number))
        time.sleep(3)
        self.assertEqual(self.job(number)["JobState"], "CANCELLED", "nobody wants it back")
        step = int(re.search(r"at step (\d+): checkpoint written", self.log(number)).group(1))
        self.assertTrue((self.work / f"cancelled/checkpoints/step-{step:08}/manifest.json").exists())


class AgentsSbatchTest(OnSlurm):
    """The files with agents: whatever happens to them, no job fails, and all succeed."""

    def submit(self, name, seeds, ranks=2, cpus=1, **changes):
        parameters = {
            **{key: f"{{value: {value}}}" for key, value in {**QUICK, **changes}.items()},
            "trainer.seed": f"{{values: {list(seeds)}}}",
        }
        lines = "".join(f"  {key}: {value}\n" for key, value in parameters.items())
        (self.work / f"{name}.yaml").write_text(
            f"settings: {SETTINGS}\nname: {name}\nmethod: grid\nmetric: {{name: holdout/mae}}\n"
            f"resources: {{ranks: {ranks}, cpus: {cpus}}}\nparameters:\n{lines}"
        )
        self.run_on("h2", [FORETIME, "submit", f"{name}.yaml"])

    def jobs(self, name):
        said = self.cluster.run("h1", [FORETIME, "status", "--json"]).stdout
        return [job for job in json.loads(said)["jobs"] if job["name"].startswith(name + "-")]

    def require_success(self, name, number):
        """All jobs have succeeded, and none has ever failed."""
        found = self.jobs(name)
        kept = [(job["state"], job["failures"]) for job in found]
        self.assertEqual(
            kept, [("succeeded", 0)] * len(found), f"{[job['error'] for job in found]}\n{self.log(number)[-5000:]}"
        )
        return found

    def hosts_of(self, jobs):
        return {job["agent"].split(":")[0] for job in jobs}

    def wait_until_running(self, name, number, count=1, step=5):
        wait_for(
            "running jobs",
            lambda: sum(job["state"] == "active" and job["step"] >= step for job in self.jobs(name)) >= count,
            lambda: self.log(number)[-3000:],
        )

    # Promise cluster-agents/sbatch: `sbatch agents.sbatch`, an agent on each of three nodes, jobs of two ranks
    def test_an_agent_on_each_node_until_the_queue_is_empty(self):
        self.submit("nodes", range(1, 8), **{"trainer.steps": 30})
        self.run_on("h1", [FORETIME, "pause"])  # until all agents are there, or two of them could do all the work
        number = self.sbatch(
            "agents.sbatch",
            "--nodes=3",
            FORETIME=str(self.slow),
            FORETIME_RUNS="runs-nodes",
            FORETIME_AGENT_OPTIONS="--cpus 2",
        )

        def hosts_of_agents():
            agents = json.loads(self.run_on("h1", [FORETIME, "queue", "--json"]))["agents"]
            return {agent["name"].split(":")[0] for agent in agents}

        wait_for("an agent on each node", lambda: hosts_of_agents() >= {"h1", "h2", "h3"}, lambda: self.log(number))
        self.run_on("h1", [FORETIME, "resume"])
        self.assertEqual(self.wait_for_end(number)["ExitCode"], "0:0", self.log(number))
        self.assertEqual(self.hosts_of(self.require_success("nodes", number)), {"h1", "h2", "h3"})

    # Promise cluster-agents/sbatch-array: `sbatch --array=1-3 agents-array.sbatch`
    def test_an_array_of_agents(self):
        self.submit("array", range(11, 15))
        number = self.sbatch("agents-array.sbatch", "--array=1-3", FORETIME_RUNS="runs-array")
        for element in (1, 2, 3):
            self.assertEqual(self.wait_for_end(f"{number}_{element}")["ExitCode"], "0:0", self.log(number))
        self.require_success("array", number)
        self.assertEqual(len(list(self.work.glob(f"foretime-agents-{number}_*.log"))), 3)

    # Promise cluster-agents/sbatch-over-nodes: `sbatch agent-over-nodes.sbatch`: a job of four ranks over two nodes
    # trains what one host trains
    def test_an_agent_whose_jobs_span_nodes(self):
        self.submit("span", [20], ranks=4, cpus=2)
        self.submit("beside", [21, 22])
        number = self.sbatch("agent-over-nodes.sbatch", "--nodes=2", "--ntasks-per-node=4", FORETIME_RUNS="runs-span")
        spans = wait_for(
            "step over two nodes",
            lambda: re.search(r"h\[1-2\]|h\[2-3\]|h\[1,3\]", self.run_on("h1", f"squeue -h -s -j {number} -o %N")),
            lambda: self.log(number)[-3000:],
        )
        self.assertTrue(spans)
        self.assertEqual(self.wait_for_end(number)["ExitCode"], "0:0", self.log(number))
        self.require_success("beside", number)
        (job,) = self.require_success("span", number)
        self.run_on("h3", ["mpirun", "-n", "4", *training("span-one-host", trainer__seed=20)])
        self.assertEqual(self.weights(f"runs-span/{job['id']}/attempt-1"), self.weights("span-one-host"))

    # Promise cluster-agents/preempted: pre-emption of agents: jobs continue from checkpoints, none fails
    def test_pre_empted_agents_hand_their_jobs_over_and_come_back(self):
        self.submit("away", [31, 32], **{"trainer.steps": 40})
        number = self.sbatch(
            "agents.sbatch",
            "--nodes=2",
            "-w",
            "h2,h3",
            FORETIME=str(self.slow),
            FORETIME_RUNS="runs-away",
            FORETIME_AGENT_OPTIONS="--cpus 2",
        )
        self.wait_until_running("away", number)
        self.urgent("h2,h3")
        wait_for("second start", lambda: self.job(number).get("Restarts") == "1", lambda: self.log(number)[-3000:])
        self.assertEqual(self.wait_for_end(number)["ExitCode"], "0:0", self.log(number))
        found = self.require_success("away", number)
        self.assertTrue(any(job["fence"] > 1 for job in found), "the jobs that ran were handed over")
        self.assertFalse(any(job["lost"] for job in found), "no lease ran out: the agents gave their jobs back")

    # Promise cluster-agents/node-down: `scontrol update state=down` of an agent's node: no job fails
    def test_a_node_that_is_lost_costs_no_job(self):
        self.submit("lost", [41, 42, 43], **{"trainer.steps": 40, "checkpoint.every_steps": 10})
        number = self.sbatch(
            "agents.sbatch",
            "--nodes=3",
            FORETIME=str(self.slow),
            FORETIME_RUNS="runs-lost",
            FORETIME_AGENT_OPTIONS="--cpus 2 --lease-seconds 5",
        )
        self.wait_until_running("lost", number, 2, 15)
        self.run_on("h1", ["scontrol", "update", "nodename=h3", "state=down", "reason=test"])
        self.addCleanup(self.bring_back, "h3")
        self.assertEqual(self.wait_for_end(number)["ExitCode"][-2:], ":0", self.log(number))
        self.require_success("lost", number)

    # Promise cluster-agents/slurmd-killed: a `slurmd` that is killed: no job fails
    def test_a_slurmd_that_is_killed_costs_no_job(self):
        self.submit("slurmd", [51, 52, 53], **{"trainer.steps": 40, "checkpoint.every_steps": 10})
        number = self.sbatch(
            "agents.sbatch",
            "--nodes=3",
            FORETIME=str(self.slow),
            FORETIME_RUNS="runs-slurmd",
            FORETIME_AGENT_OPTIONS="--cpus 2 --lease-seconds 5",
        )
        self.wait_until_running("slurmd", number, 2, 15)
        self.cluster.beside(f"kill -9 $(cat '{self.folder}/h2/slurmd.pid')")
        wait_for("node that is down", lambda: "down" in self.run_on("h1", "sinfo -h -p work -n h2 -o %t"))
        again = self.cluster.start("h2", ["slurmd", "-D", "-N", "h2"])
        self.addCleanup(again.wait)
        self.addCleanup(again.terminate)
        self.wait_for_end(number)
        self.require_success("slurmd", number)


if __name__ == "__main__":
    unittest.main()
