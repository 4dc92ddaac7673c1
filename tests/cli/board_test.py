"""foretime board: what it serves beside a queue with jobs, as programs see it. Skipped where the build has no board."""
import http.client
import json
import pathlib
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import time
import unittest
import urllib.parse

from queue_case import BASE
from program import FORETIME, HAS_BOARD, LIMIT, NO_BOARD, SAMPLES, SOURCE, ProgramTest, environment, wait_until

HOSTILE = '<img src=x onerror=alert(1)> & "quotes"'
SWEEP = """
name: NAME
settings: base.yaml
method: grid
metric: {name: holdout/mae, goal: minimize}
parameters:
  model.hidden: {values: [8, 12]}
  optimizer.learning_rate: {values: [0.01, 0.001]}
"""


def epsilon_squared(points):
    """Of (value, objective) with unequal objectives: 1 - mean square within groups of equal values over that of all."""
    ranks = {objective: rank for rank, objective in enumerate(sorted(objective for _, objective in points))}
    groups = {}
    for value, objective in points:
        groups.setdefault(value, []).append(ranks[objective])
    squares = lambda values: sum((value - sum(values) / len(values)) ** 2 for value in values)
    within = sum(squares(group) for group in groups.values()) / (len(points) - len(groups))
    return max(0, 1 - within / (squares(list(ranks.values())) / (len(points) - 1)))


class WithoutBoardTest(ProgramTest):
    def test_a_build_without_the_libraries_says_how_to_get_them(self):
        shutil.copy(FORETIME, self.folder / "foretime")  # as it is built there: alone
        for arguments in (["board"], ["report", "runs"]):
            done = subprocess.run(
                [self.folder / "foretime", *arguments],
                env=environment(),
                cwd=self.folder,
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("tools/install-deps.sh --board", done.stderr)


@unittest.skipUnless(HAS_BOARD, NO_BOARD)
class BoardTest(ProgramTest):
    def start_board(self, *arguments, **variables):
        process = subprocess.Popen(
            [FORETIME, "board", "--port", "0", *map(str, arguments)],
            env={**environment(), **variables},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        found = re.match(r"the board is at http://127\.0\.0\.1:(\d+)/#token=([0-9a-f]{64}) \(.*runs in ", line)
        self.assertTrue(found, process.stderr.read() if not line else line)
        self.port, self.token = int(found[1]), found[2]
        return process

    def ask(self, path, method="GET", headers=None, **query):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        self.addCleanup(connection.close)
        target = path + ("?" + urllib.parse.urlencode(query) if query else "")
        connection.request(
            method, target, headers={"Authorization": "Bearer " + self.token} if headers is None else headers
        )
        answer = connection.getresponse()
        return answer, answer.read()

    def api(self, path, code=200, **query):
        answer, body = self.ask(path, **query)
        self.assertEqual(answer.status, code, body)
        return json.loads(body)

    def submit_sweep(self, steps=6):
        self.write(
            "base.yaml", BASE.replace("SAMPLES", str(SAMPLES)).replace("steps: 6", f"steps: {steps}, log_every: 2")
        )
        self.write("sweep.yaml", SWEEP.replace("NAME", json.dumps(HOSTILE)))
        return self.json_of("submit", "sweep.yaml", "--json")["sweep"]

    def test_a_queue(self):
        sweep = self.submit_sweep()
        self.run_foretime("agent", "--data-root", SAMPLES, "--until-empty")
        board = self.start_board()
        status = self.json_of("status", sweep, "--json")
        shown = self.api("/api/sweep", id=sweep)
        self.assertEqual(shown["sweep"], status["sweep"])
        self.assertEqual(shown["sweep"]["name"], HOSTILE)
        self.assertEqual(shown["total"], 4)
        by_id = {job["id"]: job for job in status["jobs"]}
        for job in shown["trials"]:
            curve = job.pop("curve")
            self.assertEqual(job, by_id[job["id"]])
            history = self.json_of("history", job["id"], "--json")
            self.assertEqual(self.api("/api/job", id=job["id"])["history"], history)
            self.assertEqual(curve["steps"], history["holdout/mae"]["steps"])
            for kept, whole in zip(curve["values"], history["holdout/mae"]["values"]):
                self.assertAlmostEqual(kept / whole, 1, delta=1 / 512)
            full = self.json_of("status", job["id"], "--json")
            self.assertEqual(
                {
                    key: value
                    for key, value in self.api("/api/job", id=job["id"]).items()
                    if not key.startswith("history") and key != "events"
                },
                full,
            )
        values = [
            by_id[job["id"]]["objective"]
            for job in self.api("/api/sweep", id=sweep, sort="objective", descending="1")["trials"]
        ]
        self.assertEqual(values, sorted(values, reverse=True))
        rates = [
            job["parameters"]["optimizer.learning_rate"]
            for job in self.api("/api/sweep", id=sweep, sort="optimizer.learning_rate")["trials"]
        ]
        self.assertEqual(rates, ["0.001", "0.001", "0.01", "0.01"])
        answer, text = self.ask("/api/trials.csv", id=sweep, sort="objective", limit=1)
        self.assertEqual((answer.status, answer.getheader("Content-Type")), (200, "text/csv; charset=utf-8"))
        rows = self.rows_of(text.decode())
        self.assertEqual(
            [(row["id"], float(row["holdout/mae"]), row["model.hidden"]) for row in rows],
            [
                (job["id"], job["objective"], job["parameters"]["model.hidden"])
                for job in sorted(status["jobs"], key=lambda job: job["objective"])
            ],
        )
        page = self.api("/api/sweep", id=sweep, **{"from": 1, "limit": 2})
        self.assertEqual(([job["trial"] for job in page["trials"]], page["total"]), ([1, 2], 4))
        self.assertEqual(self.api("/api/sweep", id=sweep, search="12")["total"] >= 2, True)
        self.assertEqual(self.api("/api/sweep", id=sweep, state="dead")["total"], 0)
        overview = self.api("/api/overview", id=sweep)
        self.assertEqual(
            {point["id"]: point["objective"] for point in overview["points"]},
            {job["id"]: job["objective"] for job in status["jobs"]},
        )
        self.assertEqual(
            {each["parameter"] for each in overview["importance"]}, {"model.hidden", "optimizer.learning_rate"}
        )
        for each in overview["importance"]:
            points = [(point["parameters"][each["parameter"]], point["objective"]) for point in overview["points"]]
            self.assertAlmostEqual(each["share"], epsilon_squared(points))
        curves = self.api("/api/curves", id=sweep)
        self.assertEqual(len(curves["curves"]), 4)
        self.assertEqual(curves["curves"][0]["id"], min(status["jobs"], key=lambda job: job["best_objective"])["id"])
        events = self.api("/api/job", id=status["jobs"][0]["id"])["events"]
        self.assertEqual([event["event"] for event in events], ["submit", "claim", "finish"])
        activity = self.api("/api/activity", minutes=60)
        self.assertEqual(
            (sum(activity["ended"]), activity["waiting"][-1], max(activity["waiting"]) <= 4, activity["demand"]),
            (4, 0, True, []),
        )
        self.assertEqual(overview["best"][-1][1], min(job["best_objective"] for job in status["jobs"]))
        queue = self.api("/api/queue")
        self.assertEqual(queue["queue"]["jobs"]["succeeded"], 4)
        self.assertEqual([one["id"] for one in queue["sweeps"]], [sweep])
        log = self.api("/api/log", id=status["jobs"][0]["id"])
        self.assertGreater(log["total"], 0)
        for path, query, code in (
            ("/api/sweep", {"id": "ffff"}, 404),
            ("/api/job", {"id": "../x"}, 404),
            ("/api/job", {}, 400),
            ("/api/nothing", {}, 404),
            ("/api/sweep", {"id": sweep, "from": "-1"}, 400),
            ("/api/sweep", {"id": sweep, "state": "gone"}, 400),
        ):
            self.assertIn("message", self.api(path, code, **query)["error"], path)
        self.end(board)

    def end(self, board):
        board.send_signal(signal.SIGTERM)
        self.assertEqual(board.wait(LIMIT), 0)

    def test_pages_run_nothing_but_what_the_program_has(self):
        (self.folder / "runs").mkdir()
        board = self.start_board()
        for path in (
            "/",
            "/sweep/abc",
            "/job/abc",
            "/runs",
            "/app.js",
            "/sweep_view.js",
            "/dom.js",
            "/charts.js",
            "/style.css",
            "/uplot.js",
            "/uplot.css",
        ):
            answer, body = self.ask(path)
            self.assertEqual(answer.status, 200, path)
            policy = answer.getheader("Content-Security-Policy")
            self.assertTrue(policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';"), policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(answer.getheader("X-Content-Type-Options"), "nosniff")
            kind = {"js": "text/javascript", "css": "text/css"}.get(path.rpartition(".")[2], "text/html")
            self.assertTrue(answer.getheader("Content-Type").startswith(kind), path)
            if kind == "text/html":
                self.assertNotRegex(body.decode(), r"<script>|<style|style=|\son\w+=|https?://")
        for path in ("/etc/passwd.txt", "/../app.js", "/.git"):
            self.assertEqual(self.ask(path)[0].status, 404, path)
        self.assertEqual(self.ask("/", method="POST")[0].status, 405)
        self.assertEqual(self.ask("/api/runs", method="DELETE")[0].status, 405)
        self.assertEqual(self.ask("/", headers={"Host": "evil.example"})[0].status, 421)
        self.assertEqual(self.api("/api/queue", 404)["error"]["code"], "no_queue")
        self.end(board)

    def test_a_redis_user_who_may_only_read(self):
        """With the rights of the documentation's observer."""
        page = (SOURCE / "docs/reference/jobs.md").read_text()
        commands = [
            shlex.split(line)
            for line in page.replace("\\\n", " ").splitlines()
            if line.startswith("redis-cli ACL SETUSER foretime")
        ]
        self.assertEqual(len(commands), 2)
        acl = "".join(" ".join(["user", *words[3:]]) + "\n" for words in commands)
        self.write("users.acl", "user default on nopass ~* &* +@all\n" + acl)
        redis = subprocess.Popen(
            [
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                str(self.folder / "s"),
                "--save",
                "",
                "--aclfile",
                str(self.folder / "users.acl"),
            ],
            stdout=subprocess.DEVNULL,
        )
        self.addCleanup(redis.wait)
        self.addCleanup(redis.kill)
        self.assertTrue(wait_until((self.folder / "s").exists))
        url = f"unix://{self.folder}/s"
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)))
        self.write("sweep.yaml", SWEEP.replace("NAME", "watched"))
        sweep = self.json_of("submit", "sweep.yaml", "--json", "--redis", url)["sweep"]
        job = self.json_of("status", sweep, "--json", "--redis", url)["jobs"][0]["id"]
        board = self.start_board(
            "--redis", url, "--actions", FORETIME_REDIS_USER="foretime-observer", FORETIME_REDIS_PASSWORD="PASSWORD"
        )
        token = self.token
        self.assertEqual(self.api("/api/queue")["queue"]["jobs"]["waiting"], 4)
        self.assertEqual(self.api("/api/sweep", id=sweep)["total"], 4)
        self.assertEqual(self.api("/api/job", id=job)["id"], job)
        for path in ("/api/overview", "/api/curves"):
            self.api(path, id=sweep)
        self.assertEqual(self.api("/api/log", id=job)["total"], 0)
        self.assertEqual((self.api("/api/agents")["agents"], self.api("/api/activity")["waiting"][-1]), ([], 4))
        refused = self.act(400, {"action": "cancel", "id": sweep}, token)["error"]["message"]
        self.assertIn("the Redis user lacks this right", refused)
        self.assertEqual(self.api("/api/queue")["queue"]["jobs"]["waiting"], 4, "nothing was done")
        self.end(board)

    def act(self, code, body, token="", headers=None, method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        self.addCleanup(connection.close)
        own = {"Content-Type": "application/json", "Authorization": "Bearer " + token, **(headers or {})}
        connection.request(
            method, "/api/act", json.dumps(body), {name: value for name, value in own.items() if value is not None}
        )
        answer = connection.getresponse()
        text = answer.read()
        self.assertEqual(answer.status, code, text)
        return json.loads(text)

    def test_actions_need_a_token(self):
        sweep = self.submit_sweep()
        state = lambda: self.json_of("status", sweep, "--json")["sweep"]["state"]
        board = self.start_board()
        self.act(405, {"action": "pause", "id": sweep}, self.token)
        self.assertFalse(self.api("/api/board")["actions"])
        self.end(board)
        board = self.start_board("--actions")
        token = self.token
        pause = {"action": "pause", "id": sweep}
        for wrong in ("", token[:-1], token + "0", "0" * 64, token.upper() if token.upper() != token else "x"):
            self.assertEqual(self.act(401, pause, wrong)["error"]["code"], "wrong_token")
        self.act(401, pause, headers={"Authorization": None})
        self.act(405, pause, token, method="GET")
        self.act(405, pause, token, method="PUT")
        self.act(421, pause, token, {"Host": "evil.example"})
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://127.0.0.1:{self.port}"):
            self.act(403, pause, token, {"Origin": origin})
        self.act(403, pause, token, {"Sec-Fetch-Site": "cross-site"})
        self.act(415, pause, token, {"Content-Type": "text/plain"})  # what a form can send
        for body in (
            {},
            {"action": "pause", "id": 5},
            {"action": "cancel"},
            {"action": "explode", "id": sweep},
            [1],
            {"action": "priority", "id": sweep, "priority": 5000},
        ):
            self.act(400, body, token)
        self.act(404, {"action": "cancel", "id": "ffffffff"}, token)
        job = self.json_of("status", sweep, "--json")["jobs"][0]["id"]
        self.act(409, {"action": "pause", "id": job}, token)  # only sweeps can be paused
        self.assertEqual(state(), "running", "nothing of this was done")
        self.assertIn("paused", self.act(200, pause, token, {"Origin": f"http://127.0.0.1:{self.port}"})["text"])
        self.assertEqual(state(), "paused")
        self.act(200, {"action": "resume", "id": sweep[:8]}, token)
        self.assertEqual(state(), "running")
        self.act(200, {"action": "priority", "id": sweep, "priority": 12}, token)
        self.assertEqual({job["priority"] for job in self.json_of("status", sweep, "--json")["jobs"]}, {12})
        self.act(200, {"action": "cancel", "id": sweep}, token)
        self.assertEqual(state(), "cancelled")
        self.end(board)

    def test_reading_needs_the_token(self):
        self.train(run__directory=self.folder / "runs/one")
        board = self.start_board("runs")
        paths = [
            "/api/board",
            "/api/runs",
            "/api/run?name=one",
            "/api/file?name=one&file=config.yaml",
            "/api/rankings?name=one",
            "/api/experiment?name=one",
            "/api/queue",
            "/api/agents",
            "/api/activity",
            "/api/sweep?id=a",
            "/api/trials.csv?id=a",
            "/api/overview?id=a",
            "/api/curves?id=a",
            "/api/job?id=a",
            "/api/log?id=a",
            "/api/live?path=/api/runs",
            "/api/nothing",
            "/api/act",
        ]
        wrong = [
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {self.token[:-1]}",
            f"Bearer {self.token}0",
            f"Bearer {'0' * 64}",
            f"bearer {self.token}",
            self.token,
            f"Basic {self.token}",
        ]
        for path in paths:
            for header in [{}] + [{"Authorization": text} for text in wrong] + [{"Cookie": f"token={self.token}"}]:
                for method in ("GET", "HEAD"):
                    answer, body = self.ask(path, method, header)
                    self.assertEqual(answer.status, 401, (path, header))
                    self.assertEqual(
                        body and json.loads(body)["error"]["code"], "wrong_token" if method == "GET" else b""
                    )
        self.assertEqual(
            self.ask("/api/runs?token=" + self.token, headers={})[0].status,
            401,
            "a token in an address would be kept by browsers and logs",
        )
        for path in (
            "/",
            "/runs",
            "/job/a",
            "/app.js",
            "/style.css",
        ):  # the pages themselves say nothing of a queue or a run
            answer, body = self.ask(path, headers={})
            self.assertEqual(answer.status, 200, path)
            self.assertNotIn(str(self.folder).encode(), body)
        for path in ("/api/board", "/api/runs", "/api/run?name=one", "/api/file?name=one&file=config.yaml"):
            answer, body = self.ask(path)
            self.assertEqual(answer.status, 200, path)
            self.assertNotIn(self.token.encode(), body)
            self.assertEqual(
                (
                    answer.getheader("Set-Cookie"),
                    answer.getheader("Referrer-Policy"),
                    answer.getheader("Cache-Control"),
                ),
                (None, "no-referrer", "no-store"),
            )
        first = self.token
        self.end(board)
        other = self.start_board("runs")
        self.assertNotEqual(self.token, first, "each board has its own")
        self.end(other)

    def test_a_large_file_of_a_run_is_not_held_in_memory(self):
        (self.folder / "one").mkdir()
        with open(self.folder / "one/metrics.jsonl", "wb") as file:
            file.write(b'{"kind":"train","step":1,"loss":1.25}\n')
            file.truncate(700 << 20)
        board = self.start_board(".")
        answer, body = self.ask("/api/file", name="one", file="metrics.jsonl")
        self.assertEqual((answer.status, len(body)), (200, 700 << 20))
        self.assertTrue(body.startswith(b'{"kind":"train"'))
        run = self.api("/api/run", name="one")
        self.assertEqual(run["damaged"], ["one/metrics.jsonl: found 734003200 bytes, expected at most 536870912"])
        peak = re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{board.pid}/status").read_text())
        self.assertLess(int(peak[1]), 200 << 10)

    def test_a_unix_socket_is_for_this_user_and_needs_no_token_to_read(self):
        sweep = self.submit_sweep()
        board = subprocess.Popen(
            [FORETIME, "board", "--socket", "board.sock", "--actions"],
            env=environment(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(board.communicate)
        self.addCleanup(board.kill)
        self.assertRegex(
            board.stdout.readline(),
            r"^the board is at unix:board.sock \(a queue, and runs in runs; pages may change jobs\)\n$",
        )
        found = re.match(
            rf"for a browser: ssh -L 8600:{self.folder}/board.sock HOST, then http://127\.0\.0\.1:8600/#token=([0-9a-f]{{64}})\n",
            board.stdout.readline(),
        )
        self.assertTrue(found)
        mode = (self.folder / "board.sock").stat().st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(mode & 0o077, 0, oct(mode))

        def ask(method, path, body="", **headers):
            connection = http.client.HTTPConnection("localhost", timeout=LIMIT)
            connection.sock = socket.socket(socket.AF_UNIX)
            self.addCleanup(connection.close)
            connection.sock.connect(str(self.folder / "board.sock"))
            connection.request(method, path, body, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        self.assertEqual(ask("GET", "/api/queue")[1]["sweeps"][0]["id"], sweep)
        # The other end of ssh -L is a port of a machine that may have other users and web pages.
        pause = json.dumps({"action": "pause", "id": sweep})
        self.assertEqual(ask("POST", "/api/act", pause)[0], 401)
        self.assertEqual(ask("GET", "/api/queue", Host="evil.example")[0], 421)
        self.assertEqual(ask("POST", "/api/act", pause, Authorization="Bearer " + found[1])[0], 200)
        self.end(board)
        self.assertFalse((self.folder / "board.sock").exists())

    def test_runs_without_a_queue(self):
        for rate in (0.01, 0.001):
            self.train(
                run__directory=self.folder / f"experiment/rate {rate}",
                optimizer__learning_rate=rate,
                trainer__log_every=2,
            )
        (self.folder / "outside").symlink_to("/etc")
        board = self.start_board("experiment")
        runs = self.api("/api/runs")
        self.assertEqual(sorted(run["name"] for run in runs["runs"]), ["rate 0.001", "rate 0.01"])
        for run in runs["runs"]:
            shown = self.api("/api/run", name=run["name"])
            self.assertEqual(shown["history"], self.json_of("history", f"experiment/{run['name']}", "--json"))
            self.assertEqual(shown["settings"], (self.folder / "experiment" / run["name"] / "config.yaml").read_text())
        for name in ("..", "../outside", "/etc", "missing", "rate 0.01/checkpoints"):
            self.api("/api/run", 404, name=name)
        self.end(board)

    def test_views_follow_a_job_that_runs(self):
        sweep = self.submit_sweep(steps=100000)
        agent = self.start("agent", "--data-root", SAMPLES, "--cpus", 1)
        self.addCleanup(agent.communicate)
        self.addCleanup(agent.terminate)
        running = wait_until(
            lambda: [
                job for job in self.json_of("status", "--json")["jobs"] if job["state"] == "active" and job["step"] > 0
            ]
        )
        self.assertTrue(running)
        board = self.start_board()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        self.addCleanup(connection.close)
        connection.request(
            "GET",
            "/api/live?path=" + urllib.parse.quote(f"/api/job?id={running[0]['id']}", safe=""),
            headers={"Authorization": "Bearer " + self.token},
        )
        stream = connection.getresponse()
        self.assertEqual((stream.status, stream.getheader("Content-Type")), (200, "text/event-stream"))
        seen, began = [], time.monotonic()
        while len(seen) < 5:
            line = stream.readline().decode()
            if line.startswith("data: "):
                seen.append((time.monotonic() - began, json.loads(line[6:])["step"]))
        steps = [step for _, step in seen]
        self.assertEqual(steps, sorted(steps))
        self.assertGreater(steps[-1], steps[0])
        # Agents report once a second, and a board that asked every half a minute would not show most reports.
        gaps = sorted(b[0] - a[0] for a, b in zip(seen, seen[1:]))
        self.assertLess(gaps[len(gaps) // 2], 20)
        self.end(board)
        self.run_foretime("cancel", sweep)
