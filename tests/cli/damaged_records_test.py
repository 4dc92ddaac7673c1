"""One damaged record never hides the others: every field of every kind of record, and every reader."""
import http.client
import json
import re
import subprocess
import unittest
import urllib.parse

import redis

from program import FORETIME, HAS_BOARD, LIMIT, SAMPLES, environment, wait_until
from queue_case import QueueTest

SWEEP = """
name: NAME
settings: base.yaml
method: grid
metric: {name: holdout/mae, goal: minimize}
parameters:
  model.hidden: {values: [6, 10]}
early_terminate: {type: hyperband, min_iter: 1, eta: 2}
"""
JOB_FIELDS = (
    "kind name sweep trial settings parameters deferred metric goal after ranks most_ranks cpus gpus priority max_attempts state attempt attempt_ranks failures lost "
    "preemptions fence agent failed_on submitted_ms claimed_ms finished_ms due_ms updated_ms step total_steps eta_s loss seconds objective best_objective metrics "
    "checkpoint error reason stopped cancel log_lines results history spec lease iteration sequence pending token"
).split()
SWEEP_FIELDS = "name method definition settings metric goal trials seed rungs eta state created_ms proposals".split()
AGENT_FIELDS = "host version pid cpus gpus jobs seen_ms started_ms trouble".split()
TOTALS = "submitted claimed succeeded stopped failed cancelled dead lost_leases refused".split()
GARBAGE = {
    "control": b"a\x01\x1b[31mb\n",
    "bytes": b"\xff\xfe\x00",
    "text": b"x",
    "negative": b"-1",
    "huge": b"1e999",
    "nan": b"nan",
    "json": b"[1,{}",
    "object": b'{"a":[null]}',
    "long": b"9" * 70_000,
}


class DamagedRecordsTest(QueueTest):
    def setUp(self):
        super().setUp()
        server = subprocess.Popen(
            [
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                str(self.folder / "s"),
                "--save",
                "",
                "--dir",
                str(self.folder),
            ],
            stdout=subprocess.DEVNULL,
        )
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.assertTrue(wait_until((self.folder / "s").exists))
        self.redis = redis.Redis(unix_socket_path=str(self.folder / "s"))
        self.where = ["--redis", f"unix://{self.folder}/s"]
        self.board = None
        for name in ("good", "mixed"):
            self.write_sweep(
                text=SWEEP.replace("NAME", name).replace("[6, 10]", {"good": "[6, 10]", "mixed": "[7, 11]"}[name])
            )
            setattr(self, name, self.json("submit", "sweep.yaml", *self.where)["sweep"])
        self.finish(self.agent("--cpus", 2, "--until-empty", *self.where))
        # From now on only Redis has what the jobs measured.
        (self.folder / "runs").rename(self.folder / "elsewhere")
        if HAS_BOARD:
            self.start_board()

    def start_board(self):
        board = subprocess.Popen(
            [FORETIME, "board", ".", "--port", "0", *self.where],
            env=environment(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(board.communicate)
        self.addCleanup(board.kill)
        port, self.token = re.search(r"127\.0\.0\.1:(\d+)/#token=(\w+)", board.stdout.readline()).groups()
        self.board = http.client.HTTPConnection("127.0.0.1", int(port), timeout=LIMIT)
        self.addCleanup(self.board.close)

    def api(self, path, **query):
        """What the board answers; an answer is never older than the last change here."""
        query = urllib.parse.urlencode({**query, "not": self.asked})
        self.asked += 1
        self.board.request("GET", f"{path}?{query}", headers={"Authorization": "Bearer " + self.token})
        answer = self.board.getresponse()
        body = answer.read()
        self.board.close()  # the board closes a connection that is idle for 30 s
        self.assertEqual(answer.status, 200, (path, query, body[:500]))
        self.assertNotIn(b"\x1b", body)
        return json.loads(body)

    asked = 0

    def key(self, rest):
        return "{foretime}:" + rest

    def read(self, *arguments, code=0):
        text = self.foretime(*arguments, *self.where, code=code)
        self.assertNotIn("\x1b", text)
        return text

    def jobs_of(self, sweep):
        return json.loads(self.read("status", sweep, "--json", "--limit", "100000"))["jobs"]

    def seen(self, sweep):
        """What every reader shows of a sweep that is whole, and of its first job."""
        status = json.loads(self.read("status", sweep, "--json"))
        job = status["jobs"][0]["id"]
        found = {
            "status": status,
            "status of the job": self.read("status", job),
            "leaderboard": json.loads(self.read("leaderboard", sweep, "--json")),
            "history": self.read("history", job, "--json"),
            "log": self.read("log", job),
        }
        if self.board:
            found |= {path: self.api(path, id=sweep) for path in ("/api/sweep", "/api/overview", "/api/curves")}
            found |= {path: self.api(path, id=job) for path in ("/api/job", "/api/log")}
        return found

    def everything(self):
        """The readers of the whole queue: the rows of each, by id."""
        by_id = lambda rows: {row["id"]: row for row in rows}
        queue = json.loads(self.read("queue", "--json"))
        found = {
            "status": by_id(json.loads(self.read("status", "--json", "--limit", "100000"))["jobs"]),
            "agents": {agent["name"]: agent for agent in queue["agents"]},
        }
        for text in (
            self.read("status"),
            self.read("queue"),
            self.read("queue", "--prometheus"),
            self.read("leaderboard", self.good),
        ):
            self.assertTrue(text)
        if self.board:
            shown = self.api("/api/queue")
            found |= {
                "/api/queue": by_id(shown["sweeps"]),
                "/api/agents": {agent["name"]: agent for agent in self.api("/api/agents")["agents"]},
            }
            self.api("/api/activity", minutes=60)
        return found

    def copy_of_job(self, job, number):
        """A job like another one, in the same sweep and state."""
        copy = f"{number:016x}"
        self.redis.copy(self.key("job:" + job["id"]), self.key("job:" + copy))
        self.redis.zadd(self.key("ids"), {copy: 0})
        self.redis.zadd(self.key("state:succeeded"), {copy: 1})
        self.redis.zadd(self.key(f"sweep:{self.mixed}:jobs"), {copy: 100 + number})
        self.redis.xadd(self.key("events"), {"event": "submit", "job": copy, "to": "waiting"})
        return copy

    # Promise redis/record-damaged-fields: with any field or key of a record damaged, every reader shows the others
    # unchanged
    def test_each_field_of_a_job(self):
        before = self.seen(self.good)
        whole = {job["id"]: job for job in self.jobs_of(self.mixed)}
        damaged, first = {}, next(iter(whole.values()))
        for field in JOB_FIELDS:
            for name, value in GARBAGE.items():
                copy = self.copy_of_job(first, len(damaged) + 1)
                self.redis.hset(self.key("job:" + copy), field, value)
                damaged[copy] = (field, name)
        for kind in ("string", "list"):
            copy = self.copy_of_job(first, len(damaged) + 1)
            self.redis.delete(self.key("job:" + copy))
            self.redis.set(self.key("job:" + copy), "text") if kind == "string" else self.redis.rpush(
                self.key("job:" + copy), "text"
            )
            damaged[copy] = ("key", kind)
        shown = {job["id"]: job for job in self.jobs_of(self.mixed)}
        self.assertEqual(set(shown), set(whole) | set(damaged))
        self.assertEqual({id: shown[id] for id in whole}, whole)
        for id, (field, name) in damaged.items():
            if (
                name == "control"
                and field in ("kind", "trial", "ranks", "goal", "state", "step", "objective", "metrics", "spec")
                or field == "key"
            ):
                self.assertEqual(shown[id]["state"], "unreadable", (field, name))
                self.assertIn(id, shown[id]["unreadable"], "the message names the record")
        rows = json.loads(self.read("leaderboard", self.mixed, "--json"))["rows"]
        values = {row["trials"][0]["job"]: row["value"] for row in rows}
        for id, job in whole.items():
            self.assertEqual(values[id], job["objective"])
        self.read("leaderboard", self.mixed, "--csv")
        self.everything()
        for id, (field, name) in damaged.items():
            if name != "control" and field != "key":
                continue
            with self.subTest(field=field, value=name):
                text = self.read("status", id)
                json.loads(self.read("status", id, "--json"))
                if shown[id]["unreadable"]:
                    self.assertIn("unreadable", text)
                for reader in ("log", "history"):
                    done = subprocess.run(
                        [FORETIME, reader, id, *self.where],
                        env=environment(),
                        cwd=self.folder,
                        capture_output=True,
                        text=True,
                        timeout=LIMIT,
                    )
                    self.assertIn(done.returncode, (0, 2, 3), (reader, done.stderr))
        if self.board:
            for id in damaged:
                self.api("/api/job", id=id)
                self.api("/api/log", id=id)
            shown = self.api("/api/sweep", id=self.mixed, limit=500)
            # The table of a sweep leaves out keys that are no records of any kind; `status` marks them.
            self.assertEqual(shown["total"], len(whole) + sum(field != "key" for field, _ in damaged.values()))
            trials = {trial["id"]: trial for trial in shown["trials"]}
            for id, job in whole.items():
                self.assertEqual({key: value for key, value in trials[id].items() if key != "curve"}, job)
            for path in ("/api/overview", "/api/curves"):
                self.api(path, id=self.mixed)
        self.assertEqual(self.seen(self.good), before)

    # Promise redis/record-damaged-fields
    def test_each_field_of_a_sweep(self):
        before, jobs, all_before = self.seen(self.good), self.jobs_of(self.mixed), self.everything()
        original = self.redis.dump(self.key("sweep:" + self.mixed))
        for field in SWEEP_FIELDS:
            for name, value in GARBAGE.items():
                with self.subTest(field=field, value=name):
                    self.redis.hset(self.key("sweep:" + self.mixed), field, value)
                    if name in ("control", "json", "long"):  # one process each
                        text = self.read("status", self.mixed)
                        marked = json.loads(self.read("status", self.mixed, "--json"))["sweep"]["damaged"]
                        self.assertEqual("damaged" in text.split("\n\n")[0], marked is not None)
                        # Any text is a name, and whether a definition is damaged is known where it is needed.
                        if field not in ("settings", "definition") and (
                            name != "json" or field not in ("name", "method", "metric")
                        ):
                            self.assertIn(self.mixed, marked or "", "the message names the record")
                        if field not in ("metric", "goal"):
                            rows = json.loads(self.read("leaderboard", self.mixed, "--json"))["rows"]
                            self.assertEqual([row["value"] for row in rows], sorted(job["objective"] for job in jobs))
                        self.assertEqual(self.everything()["status"], all_before["status"])
                    if self.board:
                        sweeps = {sweep["id"]: sweep for sweep in self.api("/api/queue")["sweeps"]}
                        self.assertEqual(sweeps[self.good], all_before["/api/queue"][self.good])
                        self.assertIn(self.mixed, sweeps)
                        self.assertEqual(sweeps[self.mixed]["jobs"], all_before["/api/queue"][self.mixed]["jobs"])
                        for path in ("/api/sweep", "/api/overview", "/api/curves"):
                            self.api(path, id=self.mixed)
                        self.api("/api/job", id=jobs[0]["id"])
                    self.redis.restore(self.key("sweep:" + self.mixed), 0, original, replace=True)
        self.redis.delete(self.key("sweep:" + self.mixed))
        self.redis.set(self.key("sweep:" + self.mixed), "text")
        self.assertIn("damaged", self.read("status", self.mixed))
        self.everything()
        self.assertEqual(self.seen(self.good), before)

    def test_each_field_of_an_agent_of_statistics_and_of_events(self):
        before = self.seen(self.good)
        all_before = self.everything()
        now = self.redis.time()[0] * 1000
        names = []
        for field in AGENT_FIELDS:
            for name, value in GARBAGE.items():
                names.append(f"agent {field} {name}")
                self.redis.hset(
                    self.key("agent:" + names[-1]),
                    mapping={
                        "host": "h",
                        "version": "1",
                        "pid": 1,
                        "cpus": 2,
                        "gpus": 0,
                        "jobs": 0,
                        "seen_ms": now,
                        "started_ms": now,
                    },
                )
                self.redis.hset(self.key("agent:" + names[-1]), field, value)
                self.redis.zadd(self.key("agents"), {names[-1]: now})
        self.redis.hset(
            self.key("agent:whole"),
            mapping={
                "host": "h",
                "version": "1",
                "pid": 1,
                "cpus": 2,
                "gpus": 0,
                "jobs": 0,
                "seen_ms": now,
                "started_ms": now,
            },
        )
        self.redis.zadd(self.key("agents"), {"whole": now, "x" * 300: now, "a\x01\x1b[31mb": now})
        self.redis.set(self.key("agent:text"), "text")
        self.redis.zadd(self.key("agents"), {"text": now})
        for field in ("event", "job", "from", "to", "fence", "agent", "why", "more"):
            for value in GARBAGE.values():
                self.redis.xadd(self.key("events"), {field: value})
        for field in TOTALS:
            self.redis.hset(self.key("totals"), field, b"a\x01b")
        for field in ("keep_finished_ms", "keep_jobs", "artifact_bytes"):
            self.redis.hset(self.key("settings"), field, b"a\x01b")
        self.redis.hset(self.key("artifacts:use"), "bytes", "[1")
        self.redis.zadd(self.key("state:waiting"), {b"bad \x01 id": 5})
        self.redis.zadd(self.key("sweeps"), {b"bad \x01 id": 1e15})
        self.redis.zadd(self.key("ids"), {b"0 \x01": 0})
        self.redis.sadd(self.key("shapes"), b"\x01", b"c1g0v99999999999999999999")
        found = self.everything()
        self.assertEqual(found["status"], all_before["status"])
        for agents in (found["agents"], found.get("/api/agents", found["agents"])):
            self.assertLessEqual({*names, "whole", "text"}, set(agents))
            self.assertEqual((agents["whole"]["cpus"], agents["whole"]["unreadable"]), (2, None))
            for name in names:
                _, field, value = name.split()
                if value == "json" and field in ("pid", "cpus", "gpus", "jobs", "seen_ms", "started_ms"):
                    self.assertIn(f"field {field}", agents[name]["unreadable"])
                    self.assertIsNone(agents[name]["cpus"])
        unreadable = json.loads(self.read("queue", "--json"))["unreadable"]
        for what in ("totals", "settings", "artifacts:use"):
            self.assertTrue([message for message in unreadable if self.key(what) in message], what)
        self.assertIn("is no id", self.run_foretime("status", *self.where).stderr)
        if self.board:
            self.assertTrue([text for text in self.api("/api/queue")["warnings"] if "is no id" in text])
        self.assertEqual(self.seen(self.good), before)

    def test_each_key_of_another_type(self):
        before, all_before = self.seen(self.good), self.everything()
        job = before["status"]["jobs"][1]["id"]
        lists = [
            "totals",
            "settings",
            "agents",
            "events",
            "paused",
            "shapes",
            "artifacts:use",
            "state:dead",
            "state:waiting",
            "state:active",
            f"job:{job}:log",
            f"job:{job}:artifacts",
        ]
        for rest in lists:
            for write in (
                lambda key: self.redis.set(key, "text"),
                lambda key: self.redis.rpush(key, "text"),
                lambda key: self.redis.hset(key, "a", "b"),
            ):
                key = self.key(rest)
                kept = self.redis.dump(key)
                self.redis.delete(key)
                write(key)
                if (
                    rest == "settings" and self.redis.type(key) == b"hash"
                ):  # a queue of another protocol, which is refused
                    self.redis.delete(key)
                    if kept:
                        self.redis.restore(key, 0, kept)
                    continue
                with self.subTest(key=rest, type=self.redis.type(key)):
                    found = self.everything()
                    self.assertEqual(found["status"], all_before["status"])
                    if self.board:
                        self.assertEqual(found["/api/queue"], all_before["/api/queue"])
                    self.read("status", job)
                self.redis.delete(key)
                if kept:
                    self.redis.restore(key, 0, kept)
        self.assertEqual(self.seen(self.good), before)


if __name__ == "__main__":
    unittest.main()
