"""Slurm as users meet it: what is refused, what is said, and the sbatch files of examples/slurm."""
import re
import unittest

from on_cluster import FORETIME, OnCluster, training


class SlurmTest(OnCluster):
    # Promise training/ranks-alone: `srun` without `--mpi=pmix` is refused, unless each task is to train alone
    def test_a_training_whose_tasks_would_train_alone_is_refused(self):
        said = self.run_on("h1", ["srun", "-N2", "-n2", *training("alone")], code=4)
        self.assertIn("srun has started 2 tasks without PMIx", said)
        self.assertIn("srun --mpi=pmix", said)
        self.assertNotIn("PMI support", said, "Open MPI's own message sends people to rebuild it")
        self.assertFalse((self.work / "alone").exists())

    def test_tasks_that_are_to_train_alone_may(self):
        words = " ".join(map(str, training("apart-$SLURM_PROCID", comm__backend="single"))).replace("[]", "'[]'")
        (self.work / "apart.sh").write_text(f"{words}\n")
        self.run_on("h1", "srun -N2 -n2 sh apart.sh")
        self.assertEqual(self.weights("apart-0"), self.weights("apart-1"))
        said = self.run_on("h1", "srun --mpi=pmix -N2 -n2 sh apart.sh", code=4)
        self.assertIn("backend single under mpirun", said)

    # Promise training/ranks-idle: `foretime train` in a script or a shell of `salloc`, without `srun`: a warning
    def test_a_training_that_leaves_tasks_of_its_job_idle_says_so(self):
        said = self.run_on("h1", ["salloc", "-n", "3", *training("idle")])
        self.assertRegex(said, r"warning: Slurm job \d+ has 3 tasks, and this training uses one of them")
        said = self.run_on("h1", ["salloc", "-n", "2", "srun", "--mpi=pmix", *training("busy")])
        self.assertNotIn("warning", said)

    # Promise doctor/tasks-alone: tasks without PMIx, fatal where they cannot be agents
    def test_doctor_says_that_tasks_are_alone(self):
        said = self.run_on("h1", ["srun", "-N2", "-n4", FORETIME, "doctor"], code=4)
        self.assertRegex(said, r"Slurm +job \d+, step 0: 4 tasks on 2 nodes, without MPI")
        self.assertIn("start them by srun --mpi=pmix", said)
        self.assertEqual(said.count("\nBLAS "), 1, "one task says what all have in common")
        self.assertEqual(sorted(re.findall(r"^rank (\d)", said, re.MULTILINE)), list("0123"))

    def test_doctor_knows_that_agents_need_no_mpi(self):
        said = self.run_on("h1", ["srun", "-N3", "--ntasks-per-node=1", FORETIME, "doctor"])
        self.assertIn("agents, one to a node, are started like this, and a training is refused", said)

    # Promise doctor/all-ranks: `srun --mpi=pmix foretime doctor`, and under `mpirun`: all ranks
    def test_doctor_sees_all_ranks_by_pmix_and_by_mpirun(self):
        said = self.run_on("h1", ["srun", "--mpi=pmix", "-N2", "--ntasks-per-node=2", FORETIME, "doctor"])
        self.assertRegex(said, r"Slurm +job \d+, step 0: 4 tasks on 2 nodes, joined by PMIx")
        self.assertEqual(
            re.findall(r"^rank (\d) +(h\d): CPUs", said, re.MULTILINE),
            [("0", "h1"), ("1", "h1"), ("2", "h2"), ("3", "h2")],
        )
        self.assertNotIn("wait for each other", said)
        said = self.run_on("h1", ["salloc", "-N2", "-n", "2", "mpirun", "-n", "2", FORETIME, "doctor"])
        self.assertEqual(said.count("\nBLAS "), 1)
        self.assertEqual(len(re.findall(r"^rank \d ", said, re.MULTILINE)), 2)

    # Promise doctor/cpus: ranks that share too few CPUs, and CPUs of a job that its step does not take
    def test_doctor_finds_ranks_that_share_too_few_cpus(self):
        said = self.run_on(
            "h1", ["srun", "--mpi=pmix", "-w", "h1", "-N1", "-n4", "sh", "-c", f"exec taskset -c 0 {FORETIME} doctor"]
        )
        self.assertIn("h1: 4 ranks share 1 CPU, and wait for each other at every step", said)

    # Promise doctor/salloc: a script or a shell of `salloc` is no step
    def test_doctor_in_a_shell_of_salloc_says_that_it_is_no_step(self):
        said = self.run_on("h1", ["salloc", "-N2", "-n4", FORETIME, "doctor"])
        self.assertRegex(said, r"Slurm +job \d+ of 4 tasks on 2 nodes; this is its script or shell, and no step")
        self.assertIn("runs once, on h1: a training over all tasks is srun --mpi=pmix foretime train", said)

    # Promise training/salloc: a shell of `salloc`: `doctor`, `train` and `agent` under `srun` and `mpirun`
    def test_what_is_done_in_a_shell_of_salloc(self):
        """As the page on Slurm says it, a line each."""
        words = {name: " ".join(map(str, training(name))).replace("[]", "'[]'") for name in ("by-srun", "by-mpirun")}
        (self.work / "shell.sh").write_text(
            "set -e\n"
            f"srun --mpi=pmix {FORETIME} doctor\n"
            f"srun --mpi=pmix {words['by-srun']}\n"
            f"mpirun {words['by-mpirun']}\n"
            f"srun --ntasks=2 --ntasks-per-node=1 --cpu-bind=none {FORETIME} agent --until-empty --runs shell-runs\n"
        )
        said = self.run_on("h1", "salloc --nodes=2 --ntasks-per-node=2 sh shell.sh")
        self.assertEqual(
            re.findall(r"^rank (\d) +(h\d): CPUs", said, re.MULTILINE),
            [("0", "h1"), ("1", "h1"), ("2", "h2"), ("3", "h2")],
        )
        self.assertEqual(self.weights("by-srun"), self.weights("by-mpirun"))
        self.assertEqual(said.count("finished 0 jobs"), 2)


if __name__ == "__main__":
    unittest.main()
