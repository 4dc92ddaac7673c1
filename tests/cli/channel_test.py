"""A run that an agent supervises: what it says over the progress channel, and that it stops when it is asked to."""
import json
import os
import socket
import threading

from program import LIMIT, SAMPLES, ProgramTest, wait_until


class Listener:
    """The agent's end of one job's channel."""

    def __init__(self, path):
        self.messages, self.connection, self.seen = [], None, threading.Condition()
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen(4)
        self.connections = 0
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.connections += 1
            self.connection = connection
            with connection, connection.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    with self.seen:
                        self.messages.append(json.loads(line))
                        self.seen.notify_all()

    def wait_for(self, kind):
        with self.seen:
            if not self.seen.wait_for(lambda: self.of(kind), LIMIT):
                raise AssertionError(f"no {kind} in {LIMIT} s: {self.messages}")
            return self.of(kind)[-1]

    def of(self, kind):
        return [message for message in self.messages if message["type"] == kind]

    def close(self):
        # A blocked accept is not woken by close alone.
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.thread.join(LIMIT)


class ChannelTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "agent.sock"
        self.listener = Listener(self.path)
        self.addCleanup(self.listener.close)

    def start_job(self, ranks=1, **changes):
        return self.start_training(ranks, {"FORETIME_PROGRESS": str(self.path)}, **changes)

    def finish(self, process, code):
        output = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, code, output)
        return output

    def test_a_run_tells_how_it_goes(self):
        self.finish(self.start_job(trainer__steps=5, trainer__eval_every=2, trainer__baselines="[mlp, mean]"), 0)
        said = self.listener.messages
        self.assertEqual(said[0]["type"], "hello")
        self.assertEqual(said[-1]["type"], "result")
        steps = [message["step"] for message in self.listener.of("progress")]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual({message["total_steps"] for message in self.listener.of("progress")}, {10})  # gcn and mlp
        # Evaluations of the baseline are not the job's.
        self.assertEqual(
            [(m["step"], m["iteration"]) for m in self.listener.of("evaluation")], [(2, 1), (4, 2), (5, 3)]
        )
        self.assertIn("holdout/kendall_tau", self.listener.of("evaluation")[0]["metrics"])
        self.assertIn("test/kendall_tau", said[-1]["metrics"])
        self.assertEqual(said[-1]["step"], 5)
        for message in self.listener.of("checkpoint"):
            self.assertTrue(os.path.isabs(message["path"]), message)
        self.assertTrue(os.path.exists(self.listener.of("checkpoint")[-1]["path"] + "/manifest.json"))

    def test_a_request_to_stop_ends_all_ranks_with_75_and_a_checkpoint(self):
        for ranks in (1, 2):
            run = self.folder / f"run{ranks}"
            process = self.start_job(ranks, trainer__steps=100000, trainer__eval_every=2, run__directory=run)
            self.listener.wait_for("evaluation")
            # One rank alone talks to the agent.
            self.assertEqual(self.listener.connections, ranks)
            self.listener.connection.sendall(b'{"stop": true, "reason": "early stopping"}\n')
            self.finish(process, 75)
            last = self.listener.wait_for("checkpoint")
            self.assertTrue(os.path.exists(last["path"] + "/manifest.json"), last)
            self.assertEqual(self.listener.of("result"), [])
            # The next attempt, in another folder, goes on from there and counts its evaluations on.
            self.listener.messages.clear()
            step = last["step"]
            again = self.folder / f"again{ranks}"
            self.listener.connections = 0
            errors = self.finish(
                self.start_job(
                    ranks,
                    trainer__steps=step + 3,
                    trainer__eval_every=2,
                    run__directory=again,
                    checkpoint__resume=last["path"],
                ),
                0,
            )[1]
            self.assertIn(f"continues at step {step}", errors)
            first = self.listener.of("evaluation")[0]
            self.assertEqual(first["iteration"], first["step"] // 2)
            self.assertGreater(first["step"], step)
            self.listener.messages.clear()
            self.listener.connections = ranks  # for the next round, which has one connection more

    def test_the_best_checkpoint_outlives_an_attempt(self):
        """The best step lies before the checkpoint that the next attempt continues from: its model is still the result."""
        common = dict(
            trainer__eval_every=2,
            checkpoint__every_steps=3,
            checkpoint__keep_last=1,
            optimizer__learning_rate=0.03,
            trainer__metric="holdout/mae",
            trainer__metric_goal="minimize",
        )
        self.train(trainer__steps=9, run__directory=self.folder / "straight", **common)
        self.train(trainer__steps=6, run__directory=self.folder / "first", **common)
        best = json.loads((self.folder / "first/checkpoints/best.json").read_text())["step"]
        self.train(
            trainer__steps=9,
            run__directory=self.folder / "second",
            checkpoint__resume=self.folder / "first/checkpoints/step-00000006",
            **common,
        )
        final = {run: self.lines_of(run)[-1] for run in ("straight", "second")}
        self.assertLess(
            final["straight"]["best_step"], 6, "the case is not the one that is meant: choose another learning rate"
        )
        self.assertEqual(final["straight"]["best_step"], best)
        self.assertEqual(final["straight"], final["second"])

    def test_an_unknown_metric_is_a_mistake_where_somebody_waits_for_it(self):
        for ranks in (1, 2):
            errors = self.finish(self.start_job(ranks, trainer__metric="holdout/kendal", trainer__eval_every=2), 2)[1]
            self.assertIn("trainer.metric: found holdout/kendal", errors)
            self.assertIn("did you mean holdout/kendall_tau?", errors)
        self.assertEqual(self.listener.of("result"), [])

    def test_a_lost_agent_does_not_end_the_run(self):
        process = self.start_job(trainer__steps=60, trainer__eval_every=2)
        self.listener.wait_for("evaluation")
        self.listener.connection.shutdown(socket.SHUT_RDWR)
        self.finish(process, 0)
        done = self.run_foretime(
            *self.training(run__directory=self.folder / "none"), FORETIME_PROGRESS=str(self.folder / "nobody.sock")
        )
        self.assertIn("progress is not sent", done.stderr)

    def test_evaluate_reports_its_metrics(self):
        self.train()
        evaluated = self.json_of("evaluate", "run", SAMPLES / "C11.npz", "--json", FORETIME_PROGRESS=str(self.path))
        self.assertEqual(self.listener.wait_for("result")["metrics"], evaluated["metrics"])

    def test_ranks_do_not_outlive_mpirun(self):
        process = self.start_job(2, trainer__steps=1000000)
        self.listener.wait_for("progress")
        from resume_test import children_of, name_of

        ranks = [pid for pid in children_of(process.pid) if name_of(pid) == "foretime"]
        self.assertEqual(len(ranks), 2)
        process.kill()
        process.communicate(timeout=LIMIT)
        self.assertTrue(wait_until(lambda: not any(name_of(pid) == "foretime" for pid in ranks)), ranks)
