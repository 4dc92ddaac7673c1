"""The board and reports as people see and use them, in Chromium. Skipped where the build has no board, or there is no browser."""
import json
import re
import shutil
import signal
import subprocess
import time
import unittest

import browser
from program import FORETIME, HAS_BOARD, NO_BOARD, SAMPLES, ProgramTest, environment, wait_until
from queue_case import BASE

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
SWEEP = """
name: NAME
settings: base.yaml
method: random
run_cap: TRIALS
metric: {name: holdout/mae, goal: minimize}
parameters:
  model.hidden: {values: [8, 12]}
  model.norm: {values: [none, layer]}
  optimizer.learning_rate: {distribution: log_uniform_values, min: 1.0e-3, max: 1.0e-1}
early_terminate: {type: hyperband, min_iter: 2, eta: 2}
"""
EXPERIMENT = """
title: Small <b>and</b> quick
settings: base.yaml
fractions: [0.5, 1]
seeds: 1
metrics: [mae, kendall_tau]
overrides: {data: {test: [C10.npz]}}
entries:
  - {label: GCN, set: {model.type: gcn}}
  - {label: mean, kind: mean}
"""


@unittest.skipUnless(HAS_BOARD, NO_BOARD)
@unittest.skipIf(browser.missing(), browser.missing())
class BoardBrowserTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.downloads = self.folder / "downloads"
        self.downloads.mkdir()
        self.browser = browser.Browser(downloads=self.downloads)
        self.addCleanup(self.browser.close)
        self.wait_for, self.all, self.until = self.browser.wait_for, self.browser.all, self.browser.until
        self.text_of = self.browser.text_of

    def start_board(self, *arguments):
        process = subprocess.Popen(
            [FORETIME, "board", "--port", "0", *map(str, arguments)],
            env=environment(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.send_signal, signal.SIGTERM)
        self.base, self.token = re.search(
            r"(http://127\.0\.0\.1:\d+)/#token=([0-9a-f]{64}) ", process.stdout.readline()
        ).groups()
        self.browser.open(f"{self.base}/#token={self.token}")
        self.assertTrue(
            self.until(lambda: self.browser.run("return location.hash") == ""), "the token leaves the address"
        )

    def redis(self):
        """A client of the queue's own Redis, which lives as long as a board or an agent uses it."""
        import redis

        client = redis.Redis(unix_socket_path=str(self.folder / "runs/.redis/redis.sock"), decode_responses=True)

        def answers():
            try:
                return client.ping()
            except redis.ConnectionError:
                return False

        self.assertTrue(wait_until(answers))
        return client

    def submit(self, name, trials, steps):
        self.write(
            "base.yaml",
            BASE.replace("SAMPLES", str(SAMPLES)).replace(
                "steps: 6, eval_every: 3", f"steps: {steps}, eval_every: 2, log_every: 2"
            ),
        )
        self.write("sweep.yaml", SWEEP.replace("NAME", json.dumps(name)).replace("TRIALS", str(trials)))
        return self.json_of("submit", "sweep.yaml", "--json")["sweep"]

    def open(self, path):
        self.browser.open(self.base + path)
        self.wait_for("h1")
        self.assertEqual(self.browser.errors(), [], path)

    def click(self, selector):
        """Where elements are replaced while one looks."""
        self.assertTrue(
            self.until(
                lambda: self.browser.run(
                    "const found = document.querySelector(arguments[0]); if (found) found.click(); return !!found",
                    selector,
                )
            ),
            selector,
        )

    def value(self, selector):
        """The whole number behind one that is shown."""
        return self.browser.run(
            "const found = document.querySelector(arguments[0]); return found && found.dataset.value", selector
        )

    def saved(self, suffix):
        """The text of the file that the page saved last."""
        # Chromium makes an empty file first, and puts the whole one in its place.
        files = wait_until(lambda: [path for path in self.downloads.glob(f"*{suffix}") if path.stat().st_size > 0])
        self.assertTrue(files, suffix)
        text = files[0].read_text()
        files[0].unlink()
        return text

    def test_a_queue_with_a_sweep_that_runs(self):
        done = self.submit(HOSTILE, 6, 8)
        # A job that fails is tried once more, and its log says why.
        self.write("bad.yaml", (self.folder / "base.yaml").read_text().replace("train: [", "train: [missing.npz, "))
        bad = self.json_of("submit", "bad.yaml", "--json")["jobs"][0]["id"]
        self.run_foretime("agent", "--data-root", SAMPLES, "--until-empty", "--artifacts", "redis", code=7)
        jobs = {job["id"]: job for job in self.json_of("status", done, "--json")["jobs"]}
        self.start_board("--actions")
        queue = self.redis()
        first = min(jobs.values(), key=lambda job: job["trial"])
        queue.rpush(f"{{foretime}}:job:{first['id']}:log", HOSTILE)
        running = self.submit("running", 3, 100000)
        # Somebody's hand on the keys; the job waits until the end of this test.
        last = max(self.json_of("status", running, "--json")["jobs"], key=lambda job: job["trial"])
        queue.hset(
            f"{{foretime}}:job:{last['id']}",
            "parameters",
            json.dumps({**last["parameters"], "model.norm": HOSTILE, HOSTILE: "1"}),
        )
        agent = self.start("agent", "--data-root", SAMPLES, "--cpus", 1)
        self.addCleanup(agent.communicate)
        self.addCleanup(agent.terminate)
        self.check_queue(done, running)
        self.check_sweep(done, jobs)
        self.check_job(first)
        self.check_why(bad)
        self.check_agents()
        self.check_report(done, jobs)
        for width in (360, 1280, 2560):
            self.browser.resize(width, 900)
            for path in ("/", f"/sweep/{done}", f"/job/{first['id']}", "/agents", "/runs"):
                self.open(path)
                self.assertTrue(self.until(lambda: self.all("table")), path)
                self.assertLessEqual(self.browser.overflow(), 0, f"{path} at {width}")
                # Links and the button are on one line, whatever is said of the connection.
                self.assertTrue(
                    self.browser.run(
                        """const [nav, theme] = ['nav', '#theme'].map((name) => document.querySelector(name).getBoundingClientRect());
                    return nav.height < 40 && theme.top < nav.bottom && nav.top < theme.bottom && theme.right <= innerWidth"""
                    ),
                    f"{path} at {width}",
                )
                if width == 1280:
                    self.check_readable(path)
        self.browser.resize(1280, 900)
        self.check_live(running)
        self.check_focus(running)
        self.check_scrolling_and_selection(running)
        self.check_actions(running, done)

    def check_readable(self, path):
        """In both themes, and by those who see nothing of it."""
        for theme in ("light", "dark"):
            self.browser.run("document.documentElement.dataset.theme = arguments[0]", theme)
            self.assertEqual(self.browser.faint(), [], f"{path}, {theme}")
        nameless, focusable = self.browser.nameless()
        self.assertGreater(focusable, 6)
        self.assertEqual(nameless, [], path)
        self.assertEqual(
            self.browser.run(
                "return [document.querySelectorAll('h1').length, document.querySelectorAll('th:not([scope])').length]"
            ),
            [1, 0],
            path,
        )

    def check_why(self, bad):
        job = self.json_of("status", bad, "--json")
        self.assertEqual(job["state"], "failed")
        self.open(f"/job/{bad}")
        self.assertTrue(self.until(lambda: self.all("[aria-label=attempts] tbody tr")))
        why = self.text_of("[aria-label=attempts] tbody tr td:nth-child(5)")
        self.assertIn("missing.npz", why)
        self.assertIn(job["error"].splitlines()[0], why)
        self.assertIn("missing.npz", self.text_of("pre.error"))

    def check_agents(self):
        self.assertTrue(
            wait_until(lambda: [job for job in self.json_of("status", "--json")["jobs"] if job["state"] == "active"])
        )
        agents = {agent["name"]: agent for agent in self.json_of("queue", "--json")["agents"]}
        active = [job for job in self.json_of("status", "--json")["jobs"] if job["state"] == "active"]
        self.assertEqual(len(active), 1)
        self.open("/agents")
        self.assertTrue(
            self.until(
                lambda: self.browser.run(
                    "return [...document.querySelectorAll('tr[data-agent]')].map((row) => row.dataset.agent)"
                )
                == sorted(agents)
            )
        )
        row = f"tr[data-agent='{active[0]['agent']}'] "
        self.assertTrue(self.until(lambda: self.value(row + "td:nth-child(3)") == "1 of 1"), self.browser.text())
        self.assertEqual(self.value(row + "td:nth-child(5)"), active[0]["id"])
        self.assertTrue(self.all(row + "meter[value='1'][max='1']"))
        # No page of this board runs what it has not brought itself, whatever gets into it.
        self.browser.run("document.body.insertAdjacentHTML('beforeend', arguments[0])", HOSTILE)
        self.assertTrue(self.until(lambda: self.browser.errors()), "the attempt was refused")
        self.assertNotEqual(self.browser.driver.title, "hacked")

    def check_queue(self, done, running):
        self.open("/")
        self.wait_for(f"tr[data-id='{running}']")
        self.assertIn(HOSTILE, self.browser.text())
        self.assertEqual(self.browser.run("return document.querySelector('main img, main script')"), None)
        self.assertTrue(self.until(lambda: len(self.all("figure canvas")) == 2))
        self.assertEqual(self.text_of("[data-name=succeeded]"), "6")

    def check_sweep(self, sweep, jobs):
        self.open(f"/sweep/{sweep}")
        self.until(lambda: len(self.all("tr[data-id]")) == 6)
        for id, job in jobs.items():
            cells = f"tr[data-id='{id}'] td"
            self.assertEqual(float(self.value(f"{cells}:nth-child(4)")), job["objective"])
            self.assertEqual(int(self.value(f"{cells}:nth-child(1)")), job["trial"])
            shown = [self.value(f"{cells}:nth-child({column})") for column in (8, 9, 10)]
            self.assertEqual(shown, [job["parameters"][name] for name in sorted(job["parameters"])])
        self.assertNotIn("hacked", self.browser.driver.title.replace(HOSTILE, ""))
        order = lambda: [self.value(f"tbody tr:nth-child({i}) td:nth-child(4)") for i in range(1, 7)]
        best_first = sorted((job["objective"] for job in jobs.values()))
        self.click("thead th:nth-child(4) button")
        self.assertTrue(self.until(lambda: [float(value) for value in order()] == best_first), order())
        self.click("thead th:nth-child(4) button")
        self.assertTrue(self.until(lambda: [float(value) for value in order()] == best_first[::-1]), order())
        # The address keeps the order and the filter.
        self.browser.run(
            "const field = document.querySelector('input[type=search]'); field.value = 'layer'; field.dispatchEvent(new Event('input'))"
        )
        layers = sum(job["parameters"]["model.norm"] == "layer" for job in jobs.values())
        self.assertTrue(self.until(lambda: len(self.all("tr[data-id]")) == layers))
        address = self.browser.driver.current_url
        self.assertIn("sort=objective&descending=1&search=layer", address)
        self.open(address.removeprefix(self.base))
        self.assertTrue(self.until(lambda: len(self.all("tr[data-id]")) == layers))
        self.click(".menu summary")
        self.click(".menu label:nth-child(1) input")
        self.assertTrue(self.until(lambda: "model.hidden" not in self.text_of("thead")))
        self.assertIn("hide=model.hidden", self.browser.driver.current_url)
        # Parallel coordinates: whoever drags over the lower end of the objective's axis keeps the best trial.
        self.wait_for(".parallel polyline")
        self.assertEqual(len(self.all(".parallel polyline")), 6)
        self.browser.run(
            """const handle = document.querySelector('.parallel g ~ rect.handle:last-of-type');
            const box = handle.getBoundingClientRect(), at = (y) => ({clientX: box.left + 5, clientY: y, pointerId: 1, bubbles: true});
            handle.setPointerCapture = () => {};
            handle.dispatchEvent(new PointerEvent('pointerdown', at(box.bottom)));
            handle.dispatchEvent(new PointerEvent('pointermove', at(box.bottom - 12)));
            handle.dispatchEvent(new PointerEvent('pointerup', at(box.bottom - 12)));"""
        )
        best = min(jobs.values(), key=lambda job: job["objective"])
        self.assertTrue(
            self.until(lambda: f"the best: trial {best['trial']} " in self.browser.text()), self.browser.text()
        )
        self.assertTrue(self.all(".parallel polyline.off"))
        self.assertEqual(
            (self.text_of(".tiles a"), float(self.value(".tiles a"))),
            (f"{best['objective']:.4g}", best["best_objective"]),
        )
        # The address keeps what was chosen.
        self.assertTrue(self.until(lambda: "brush=" in self.browser.driver.current_url))
        off = len(self.all(".parallel polyline.off"))
        self.open(self.browser.driver.current_url.removeprefix(self.base))
        self.assertTrue(self.until(lambda: len(self.all(".parallel polyline.off")) == off), "as it was")
        self.assertTrue(self.until(lambda: f"the best: trial {best['trial']} " in self.browser.text()))
        self.click("figure.wide:has(.parallel) .saves button:nth-child(1)")
        rows = self.rows_of(self.saved(".csv"))
        self.assertEqual(
            {row["trial"]: float(row["holdout/mae"]) for row in rows},
            {str(job["trial"]): job["objective"] for job in jobs.values()},
        )
        self.click("figure.wide:has(.parallel) .saves button:nth-child(2)")
        self.assertRegex(self.saved(".svg"), r"^<svg .*<polyline ")
        importance = self.until(lambda: [row.text for row in self.all(".bars .name")])
        self.assertEqual(sorted(importance), ["model.hidden", "model.norm", "optimizer.learning_rate"])
        self.assertEqual(self.browser.errors(), [])

    def check_job(self, job):
        self.open(f"/job/{job['id']}")
        self.wait_for("pre[aria-label=log]")
        self.assertTrue(self.until(lambda: HOSTILE in self.text_of("pre[aria-label=log]")))
        self.assertEqual(self.browser.run("return document.querySelector('main img, main script')"), None)
        self.assertEqual(float(self.value("[data-name='holdout/mae'] span")), job["objective"])
        metrics = self.until(
            lambda: {
                name.text: float(value.get_attribute("data-value"))
                for name, value in zip(
                    self.all("[aria-label=metrics] tbody td:first-child"),
                    self.all("[aria-label=metrics] tbody td:nth-child(2)"),
                    strict=True,
                )
            }
        )
        self.assertEqual(metrics, job["metrics"])
        self.assertEqual(len(self.all(".timeline rect.state")), job["attempt"])
        artifacts = self.json_of("status", job["id"], "--json")["artifacts"]
        stored = self.browser.run(
            "return [...document.querySelectorAll('[aria-label=artifacts] tbody tr')].map((row) => [row.cells[0].textContent, Number(row.cells[3].dataset.value)])"
        )
        self.assertEqual(dict(stored), {role: each["bytes"] for role, each in artifacts.items() if role != "trouble"})
        self.assertTrue(stored)
        self.assertIn("ended", self.text_of("[aria-label=attempts] tbody"))
        self.click("figure[aria-label='holdout/mae'] .saves button:nth-child(1)")
        self.assertEqual(
            [int(row["step"]) for row in self.rows_of(self.saved(".csv"))],
            self.json_of("history", job["id"], "--json")["holdout/mae"]["steps"],
        )
        self.assertEqual(self.browser.errors(), [])

    def check_report(self, sweep, jobs):
        self.run_foretime("report", sweep, "-o", "sweep.html")
        self.browser.open((self.folder / "sweep.html").as_uri())
        self.assertTrue(self.until(lambda: len(self.all("tr[data-id]")) == 6), self.browser.errors())
        self.assertTrue(self.until(lambda: self.all("figure canvas") and self.all(".parallel polyline")))
        self.assertIn(HOSTILE, self.browser.text())
        self.click("thead th:nth-child(4) button")
        shown = [float(self.value(f"tbody tr:nth-child({i}) td:nth-child(4)")) for i in range(1, 7)]
        self.assertEqual(shown, sorted(job["objective"] for job in jobs.values()))
        self.assertEqual(self.browser.errors(), [])

    def check_live(self, sweep):
        """A report of the agent is on the page within two seconds."""
        running = wait_until(
            lambda: [
                job
                for job in self.json_of("status", sweep, "--json")["jobs"]
                if job["state"] == "active" and job["step"] > 0
            ]
        )
        self.open(f"/job/{running[0]['id']}")
        step = lambda: int(re.search(r"step (\d+) of", self.text_of("[data-name=progress]"))[1])
        # When the page shows each step, and when Redis has had its report, by the same clock.
        self.browser.run(
            """window.shown = {};
            const note = () => { const step = document.querySelector('[data-name=progress]')?.textContent.match(/step (\\d+) of/)?.[1]; if (step) window.shown[step] ??= Date.now(); };
            note();
            new MutationObserver(note).observe(document.getElementById('main'), {subtree: true, childList: true, characterData: true});"""
        )
        queue = self.redis()
        reported, shown = {}, {}

        def shown_after_reports():
            step, when = queue.hmget(f"{{foretime}}:job:{running[0]['id']}", "step", "updated_ms")
            reported.setdefault(int(step), int(when))
            shown.update({int(step): when for step, when in self.browser.run("return window.shown").items()})
            # The first came before anybody looked.
            return [step for step in sorted(reported)[1:] if step <= max(shown, default=0)]

        self.assertTrue(wait_until(lambda: len(shown_after_reports()) > 4, 0.02), (shown, reported))
        late = sorted(
            min(when for step, when in shown.items() if step >= one) - reported[one] for one in shown_after_reports()
        )
        self.assertLess(late[len(late) // 2], 20_000, "milliseconds; on an idle machine 2,000")

    def check_focus(self, sweep):
        """Who works with the keyboard stays where he is while what runs changes."""
        self.open(f"/sweep/{sweep}")
        self.assertTrue(self.until(lambda: self.browser.text().count(HOSTILE) >= 2), "as a value and as a name")
        self.assertEqual(
            self.browser.run("return [document.querySelector('main img, main script'), document.title]"),
            [None, "running – Foretime"],
        )
        self.wait_for("th [data-key=objective]")
        self.browser.run("document.querySelector('th [data-key=objective]').focus()")
        self.browser.run("window.table = document.querySelector('table')")
        self.assertTrue(
            self.until(lambda: self.browser.run("return !window.table.isConnected")), "the table was made anew"
        )
        self.assertTrue(
            self.until(lambda: self.browser.run("return document.activeElement.dataset.key") == "objective")
        )
        self.browser.press("\ue007")  # Enter
        self.assertTrue(self.until(lambda: "sort=objective" in self.browser.driver.current_url))
        self.assertTrue(
            self.until(lambda: self.browser.run("return document.activeElement.dataset.key") == "objective")
        )
        self.browser.press("/")
        self.assertTrue(self.until(lambda: self.browser.run("return document.activeElement.type") == "search"))

    def check_scrolling_and_selection(self, sweep):
        """Who reads on a small screen stays where he is while what runs changes, and what he selected stays selected."""
        self.browser.resize(360, 640)
        self.open(f"/sweep/{sweep}")
        self.wait_for("tr[data-id]")
        self.assertTrue(
            self.until(
                lambda: self.browser.run(
                    """const table = document.querySelector('.scroll[aria-label=trials]');
            table.scrollLeft = 120;
            scrollTo(0, 90);
            return table.scrollLeft === 120 && scrollY === 90"""
                )
            )
        )
        self.browser.run("window.table = document.querySelector('table')")
        self.assertTrue(
            self.until(lambda: self.browser.run("return !window.table.isConnected")), "the table was made anew"
        )
        self.assertTrue(
            self.until(
                lambda: self.browser.run(
                    "return [document.querySelector('.scroll[aria-label=trials]').scrollLeft, scrollY]"
                )
                == [120, 90]
            )
        )
        # Parts in which nothing is selected go on changing.
        selected = self.browser.run(
            """const cell = document.querySelector('tr[data-id] td:nth-child(3)');
            window.table = document.querySelector('table');
            window.head = document.querySelector('h1');
            getSelection().selectAllChildren(cell);
            return getSelection().toString()"""
        )
        self.assertTrue(selected)
        for _ in range(2):
            self.assertTrue(self.until(lambda: self.browser.run("return !window.head.isConnected")), "news came")
            self.browser.run("window.head = document.querySelector('h1')")
        self.assertEqual(
            self.browser.run("return [getSelection().toString(), window.table.isConnected]"), [selected, True]
        )
        self.browser.run("getSelection().removeAllRanges()")
        self.assertTrue(
            self.until(lambda: self.browser.run("return !window.table.isConnected")), "the table goes on changing"
        )
        # A log is read where one wants to, once it is not told to follow.
        # Nobody else writes to the log of a job that waits, and Redis keeps the last lines of a log only.
        waiting = [job for job in self.json_of("status", sweep, "--json")["jobs"] if job["state"] == "waiting"][0]
        queue = self.redis()
        log = f"{{foretime}}:job:{waiting['id']}:log"
        queue.rpush(log, *[f"line {i}" for i in range(150)])
        self.open(f"/job/{waiting['id']}")
        self.assertTrue(self.until(lambda: "line 149" in self.text_of("pre[aria-label=log]")))
        self.assertTrue(
            self.until(
                lambda: self.browser.run("return document.querySelector('pre[aria-label=log]').scrollTop > 200")
            ),
            "it follows the end",
        )
        self.click("h2 input[type=checkbox]")
        self.browser.run("document.querySelector('pre[aria-label=log]').scrollTop = 50")
        queue.rpush(log, "the newest line")
        self.assertTrue(self.until(lambda: "the newest line" in self.text_of("pre[aria-label=log]")))
        self.assertEqual(self.browser.run("return document.querySelector('pre[aria-label=log]').scrollTop"), 50)
        self.assertEqual(self.browser.errors(), [])
        self.browser.resize(1280, 900)

    def check_actions(self, sweep, done):
        state = lambda: self.json_of("status", sweep, "--json")["sweep"]["state"]
        self.open("/")
        self.click("[data-action=pause]")
        self.assertTrue(self.until(lambda: self.json_of("queue", "--json")["paused"]))
        self.click("[data-action=resume]")
        self.assertTrue(self.until(lambda: not self.json_of("queue", "--json")["paused"]))
        self.open(f"/sweep/{sweep}")
        self.click("[data-action=pause]")
        self.assertTrue(self.until(lambda: state() == "paused"))
        self.assertTrue(self.until(lambda: "paused; running jobs continue" in self.text_of("#notice")))
        self.click("[data-action=resume]")
        self.assertTrue(self.until(lambda: state() == "running"))
        waiting = [job for job in self.json_of("status", sweep, "--json")["jobs"] if job["state"] == "waiting"][0]["id"]
        job = lambda: self.json_of("status", waiting, "--json")
        self.open(f"/job/{waiting}")
        self.wait_for("input[aria-label=priority]")
        self.browser.run("document.querySelector('input[aria-label=priority]').value = '-7'")
        self.click("[data-action=priority]")
        self.assertTrue(self.until(lambda: job()["priority"] == -7))
        self.browser.run("window.confirm = () => false")
        self.click("[data-action=cancel]")
        self.browser.run("window.confirm = () => true")
        self.assertEqual(job()["state"], "waiting", "it was not confirmed")
        self.click("[data-action=cancel]")
        self.assertTrue(self.until(lambda: job()["state"] == "cancelled"))
        self.click("[data-action=retry]")
        self.assertTrue(self.until(lambda: job()["state"] in ("waiting", "active")))
        self.open(f"/sweep/{sweep}")
        self.browser.run("window.confirm = () => true")
        self.click("[data-action=cancel]")
        self.assertTrue(self.until(lambda: state() == "cancelled"))
        self.assertEqual(self.browser.errors(), [])
        # A page that holds another token is told so, and nothing happens.
        self.open(f"/sweep/{done}")
        self.wait_for("[data-action=pause]")
        self.browser.run("localStorage.setItem('token', '0')")
        self.click("[data-action=pause]")
        self.assertTrue(self.until(lambda: "the token is missing or wrong" in self.text_of("#notice")))
        self.assertEqual(self.json_of("status", done, "--json")["sweep"]["state"], "running")

    def test_a_page_without_the_token_asks_for_it(self):
        self.train(run__directory=self.folder / "runs/one")
        self.start_board("runs")
        self.browser.open(self.base + "/runs?run=one")
        self.assertTrue(self.until(lambda: self.all("[aria-label=rankings] tbody tr")))
        self.assertNotIn("Cancel", self.browser.text())
        entries = self.browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        self.assertTrue(any("/api/run?name=one" in entry for entry in entries))
        self.assertFalse(
            [entry for entry in entries if self.token in entry], "no address that is asked for holds the token"
        )
        self.assertEqual(self.browser.run("return document.cookie"), "")
        self.click("a[download='config.yaml']")
        self.assertEqual(self.saved("config.yaml"), (self.folder / "runs/one/config.yaml").read_text())
        for kept in ("localStorage.clear()", "localStorage.setItem('token', '0'.repeat(64))"):
            self.browser.run(kept)
            self.browser.open(self.base + "/runs?run=one")
            self.assertEqual(self.text_of("h1"), "This board needs its token")
            self.assertFalse(self.all("table"))
            self.browser.errors()  # of requests that were refused
            self.assertEqual(self.browser.nameless()[0], [])
            self.browser.read("input[type=password]", lambda field: field.send_keys("no token\ue007"))
            self.assertTrue(self.until(lambda: "this is no token" in self.text_of("#notice")))
            self.browser.read("input[type=password]", lambda field: field.clear())
            self.browser.read(
                "input[type=password]", lambda field: field.send_keys(f"{self.base}/#token={self.token}\ue007")
            )
            self.assertTrue(
                self.until(lambda: self.all("[aria-label=rankings] tbody tr")), "the address that was asked for"
            )
            self.assertEqual(self.browser.errors(), [])

    def test_a_report_of_many_trials_has_the_best(self):
        count, most = 560, 500
        sweep = self.submit("many", count, 8)
        self.start_board()  # the queue's Redis lives as long as somebody uses it
        queue = self.redis()
        jobs = {job["trial"]: job["id"] for job in self.json_of("status", sweep, "--json", "--limit", 1000)["jobs"]}
        self.assertEqual(sorted(jobs), list(range(count)))
        # As agents leave them; every 40th trial failed.
        objectives = {trial: (trial * 37 % count + 1) / 1000 for trial in jobs if trial % 40 != 3}
        for trial, job in jobs.items():
            ended = (
                {"state": "succeeded", "objective": repr(objectives[trial]), "results": 1}
                if trial in objectives
                else {"state": "failed", "error": "it failed"}
            )
            queue.hset(
                f"{{foretime}}:job:{job}", mapping={**ended, "attempt": 1, "finished_ms": int(1000 * time.time())}
            )
            queue.zadd(f"{{foretime}}:state:{ended['state']}", {job: 0})
            queue.zrem("{foretime}:state:waiting", job)
        kept = set(sorted(objectives, key=objectives.get)[:most])
        self.run_foretime("report", sweep, "-o", "many.html")
        self.browser.open((self.folder / "many.html").as_uri())
        shown = lambda: [
            int(trial)
            for trial in self.browser.run(
                "return [...document.querySelectorAll('tr[data-id] td:first-child')].map((cell) => cell.dataset.value)"
            )
        ]
        self.assertTrue(self.until(lambda: shown() == sorted(kept)[:50]), self.browser.errors())
        pager = lambda: self.text_of(".tools:last-of-type")
        self.assertIn(
            f"1 to 50 of {most}; {count - most} with worse objectives, or none, are not in this report", pager()
        )
        self.click("[data-key=objective]")
        self.assertTrue(self.until(lambda: shown() == sorted(kept, key=objectives.get)[:50]))
        for _ in range(most // 50 - 1):
            self.click(".tools:last-of-type button:last-child")
        self.assertTrue(self.until(lambda: shown() == sorted(kept, key=objectives.get)[-50:]))
        self.assertFalse(self.browser.read(".tools:last-of-type button:last-child", lambda next: next.is_enabled()))
        self.click("h2 + .tools > button")
        rows = self.rows_of(self.saved(".csv"))
        self.assertEqual(
            {int(row["trial"]): float(row["holdout/mae"]) for row in rows}, {trial: objectives[trial] for trial in kept}
        )
        self.assertEqual(len(rows), most)
        self.assertEqual(len(self.all(".parallel polyline")), len(objectives), "figures show all trials")
        self.assertEqual(self.browser.errors(), [])

    def test_runs_side_by_side(self):
        for name, rate in (("fast", 0.01), ('slow & "odd"', 0.001)):
            self.train(
                run__directory=self.folder / "experiment" / name,
                optimizer__learning_rate=rate,
                trainer__log_every=2,
                trainer__steps=6,
                trainer__eval_every=2,
            )
        self.run_foretime(
            *self.training(run__directory=self.folder / "experiment/profiled", trainer__steps=4, trainer__log_every=2),
            "--profile",
        )
        self.start_board("experiment")
        self.check_profile("/runs?run=profiled")
        self.open("/")
        self.assertTrue(self.until(lambda: len(self.all("tbody tr")) == 3))
        self.browser.run(
            "const field = document.querySelector('input[type=search]'); field.value = 'profiled'; field.dispatchEvent(new Event('input'))"
        )
        self.assertTrue(self.until(lambda: len([row for row in self.all("tbody tr") if row.is_displayed()]) == 1))
        shutil.rmtree(self.folder / "experiment/profiled")
        self.open("/")
        self.assertTrue(
            self.until(lambda: len(self.all("tbody tr")) == 2 or self.browser.driver.refresh()),
            "answers are a second old at most",
        )
        self.assertEqual(self.browser.run("return location.pathname"), "/runs", "there is no queue")
        for i in (1, 2):
            self.click(f"tbody tr:nth-child({i}) input")
            self.assertTrue(
                self.until(
                    lambda: len(self.all("[aria-label=rankings] tbody tr")) % i == 0 and self.all(".scatter circle")
                )
            )
        self.assertTrue(self.until(lambda: self.all("[aria-label=settings]")))
        settings = self.text_of("[aria-label=settings]")
        self.assertIn("optimizer.learning_rate", settings)
        self.assertNotIn("model.hidden", settings)
        rows = {(row["set"], row["group"]) for row in self.rows("experiment/fast/rankings.csv")}
        self.assertEqual(len(self.all("[aria-label=rankings] tbody tr")), 2 * len(rows))
        comparison = (self.folder / "experiment/fast/comparison.txt").read_text()
        shown = self.browser.run(
            """return [...document.querySelectorAll('[aria-label=rankings] tbody tr')].filter((row) => row.children[1].textContent === 'fast')
            .map((row) => [row.children[0].textContent, Number(row.children[4].dataset.value)])"""
        )
        for name, tau in shown:
            set_, group = name.split(": ")
            self.assertRegex(comparison, rf"(?m)^ *{re.escape(group)} +{set_} .*{tau:.3f}")
        self.open(self.browser.driver.current_url.removeprefix(self.base))
        self.assertTrue(
            self.until(lambda: len(self.all("[aria-label=rankings] tbody tr")) == 2 * len(rows)),
            "the address is the comparison",
        )
        self.run_foretime("report", "experiment", "-o", "experiment.html")
        self.browser.open((self.folder / "experiment.html").as_uri())
        self.assertTrue(
            self.until(
                lambda: len(self.all("[aria-label=rankings] tbody tr")) == 2 * len(rows) and self.all("figure canvas")
            ),
            self.browser.errors(),
        )
        self.assertEqual(self.browser.errors(), [])
        self.run_foretime("report", "nothing-of-this-name", code=4)

    def test_an_experiment(self):
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)))
        self.write("small.yaml", EXPERIMENT)
        self.run_foretime("experiment", "small.yaml", "--out", "all/small")
        rows = self.rows("all/small/results.csv")
        self.start_board("all")
        self.open("/runs")
        self.click("a[href^='/experiment']")
        self.assertTrue(self.until(lambda: self.all("[aria-label=trials] tbody tr")))
        self.assertEqual(self.text_of("h1"), "Small <b>and</b> quick")
        found = self.browser.run(
            """const heads = [...document.querySelectorAll('[aria-label=trials] th button')].map((each) => each.dataset.key);
            return [...document.querySelectorAll('[aria-label=trials] tbody tr')].map((row) => Object.fromEntries([...row.cells].map((cell, i) => [heads[i], cell.dataset.value ?? cell.textContent])))"""
        )
        shown = {
            (row["entry"], row["fraction"], row["seed"], metric): float(value)
            for row in found
            for metric, value in row.items()
            if metric not in ("entry", "fraction", "seed") and value
        }
        self.assertEqual(
            shown, {(row["entry"], row["fraction"], row["seed"], row["metric"]): float(row["value"]) for row in rows}
        )
        summary = (self.folder / "all/small/summary.md").read_text()
        self.assertIn(self.text_of(".scroll tbody tr td"), summary)
        self.assertTrue(self.until(lambda: self.all("figure[aria-label='mae (ms)'] canvas")))
        self.click("figure[aria-label='mae (ms)'] .saves button:nth-child(1)")
        self.assertEqual(self.saved(".csv").splitlines()[0], "share of the data,GCN,mean")
        self.click("[aria-label=trials] [data-key=mae]")
        self.assertIn("sort=mae", self.browser.driver.current_url)
        self.click("main a[href^='/runs']")
        self.assertTrue(
            self.until(
                lambda: {row.text for row in self.all("[aria-label=rankings] tbody td:nth-child(2)")}
                == {"small/trials/gcn/fraction-1/seed-1", "small/trials/mean/fraction-1/seed-1"}
            ),
            self.browser.text(),
        )
        self.run_foretime("report", "all/small", "-o", "small.html")
        self.browser.open((self.folder / "small.html").as_uri())
        self.assertTrue(
            self.until(
                lambda: self.all("[aria-label=trials] tbody tr")
                and self.all("[aria-label=rankings] tbody tr")
                and self.all(".scatter circle")
            ),
            self.browser.errors(),
        )
        self.assertEqual(self.browser.errors(), [])

    def check_profile(self, path):
        trace = json.loads((self.folder / "experiment/profiled/trace.json").read_text())["traceEvents"]
        self.open(path)
        longest = max((event for event in trace if event["ph"] == "X"), key=lambda event: event["dur"])
        self.assertIn(
            longest["name"],
            self.browser.read(
                "pre[aria-label='Where the time went of profiled']", lambda text: text.get_attribute("textContent")
            ),
        )
        self.click("a[download='trace.json']")
        self.assertEqual(json.loads(self.saved("trace.json"))["traceEvents"], trace)
        self.run_foretime("report", "experiment/profiled", "-o", "profile.html")
        self.browser.open((self.folder / "profile.html").as_uri())
        self.assertTrue(self.until(lambda: self.text_of("h1") == "Run profiled"), self.browser.errors())
        self.assertEqual(self.browser.driver.title, "Run profiled – Foretime")
        self.assertRegex(self.text_of(".name"), r"^Foretime [0-9.]+ report, \d{4}-\d\d-\d\d \d\d:\d\d UTC$")
        self.assertEqual(self.browser.errors(), [])


if __name__ == "__main__":
    unittest.main()
