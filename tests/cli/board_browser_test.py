"""The board and reports as people see and use them, in Chromium. Skipped where the build has no board, or there is no browser."""
import json
import pathlib
import re
import signal
import subprocess
import unittest

import browser
from program import FORETIME, SAMPLES, ProgramTest, environment, wait_until
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
HAS_BOARD = (pathlib.Path(FORETIME).parent / "core/foretime-board").exists()


@unittest.skipUnless(HAS_BOARD, "this build has no board: tools/install-deps.sh --board")
@unittest.skipIf(browser.missing(), browser.missing())
class BoardBrowserTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.downloads = self.folder / "downloads"
        self.downloads.mkdir()
        self.browser = browser.Browser(downloads=self.downloads)
        self.addCleanup(self.browser.close)
        self.one, self.all, self.until = self.browser.one, self.browser.all, self.browser.until

    def start_board(self, *arguments):
        process = subprocess.Popen([FORETIME, "board", "--port", "0", *map(str, arguments)], env=environment(), cwd=self.folder,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.send_signal, signal.SIGTERM)
        self.base = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
        if "--actions" in arguments:
            self.token = re.search(r"#token=([0-9a-f]{64})", process.stdout.readline())[1]

    def submit(self, name, trials, steps):
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)).replace("steps: 6, eval_every: 3", f"steps: {steps}, eval_every: 2, log_every: 2"))
        self.write("sweep.yaml", SWEEP.replace("NAME", json.dumps(name)).replace("TRIALS", str(trials)))
        return self.json_of("submit", "sweep.yaml", "--json")["sweep"]

    def open(self, path):
        self.browser.open(self.base + path)
        self.one("h1")
        self.assertEqual(self.browser.errors(), [], path)

    def click(self, selector):
        """Where elements are replaced while one looks."""
        self.assertTrue(self.until(lambda: self.browser.run("const found = document.querySelector(arguments[0]); if (found) found.click(); return !!found", selector)), selector)

    def value(self, selector):
        """The whole number behind one that is shown."""
        return self.browser.run("const found = document.querySelector(arguments[0]); return found && found.dataset.value", selector)

    def saved(self, suffix):
        """The text of the file that the page saved last."""
        files = wait_until(lambda: list(self.downloads.glob(f"*{suffix}")), 20)
        self.assertTrue(files, suffix)
        text = files[0].read_text()
        files[0].unlink()
        return text

    def test_a_queue_with_a_sweep_that_runs(self):
        done = self.submit(HOSTILE, 6, 8)
        self.run_foretime("agent", "--data-root", SAMPLES, "--until-empty")
        jobs = {job["id"]: job for job in self.json_of("status", done, "--json")["jobs"]}
        import redis
        queue = redis.Redis(unix_socket_path=str(self.folder / "runs/.redis/redis.sock"))
        first = min(jobs.values(), key=lambda job: job["trial"])
        queue.rpush(f"{{foretime}}:job:{first['id']}:log", HOSTILE)
        running = self.submit("running", 3, 100000)
        agent = self.start("agent", "--data-root", SAMPLES, "--cpus", 1)
        self.addCleanup(agent.communicate)
        self.addCleanup(agent.terminate)
        self.start_board("--actions")
        self.check_queue(done, running)
        self.check_sweep(done, jobs)
        self.check_job(first)
        self.check_report(done, jobs)
        for width in (360, 1280, 2560):
            self.browser.resize(width, 900)
            for path in ("/", f"/sweep/{done}", f"/job/{first['id']}", "/agents", "/runs"):
                self.open(path)
                self.assertTrue(self.until(lambda: self.all("table")), path)
                self.assertLessEqual(self.browser.overflow(), 0, f"{path} at {width}")
        self.browser.resize(1280, 900)
        self.check_live(running)
        self.check_actions(running, done)

    def check_queue(self, done, running):
        self.open("/")
        self.one(f"tr[data-id='{running}']")
        self.assertIn(HOSTILE, self.browser.text())
        self.assertEqual(self.browser.run("return document.querySelector('main img, main script')"), None)
        self.assertTrue(self.until(lambda: len(self.all("figure canvas")) == 2))
        self.assertEqual(self.one("[data-name=succeeded]").text, "6")
        self.assertFalse(self.all("[data-action]"), "no token was given")
        self.open("/agents")
        self.assertEqual(len(self.one("tbody").find_elements("css selector", "tr")), len(self.json_of("queue", "--json")["agents"]))

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
        self.browser.run("const field = document.querySelector('input[type=search]'); field.value = 'layer'; field.dispatchEvent(new Event('input'))")
        layers = sum(job["parameters"]["model.norm"] == "layer" for job in jobs.values())
        self.assertTrue(self.until(lambda: len(self.all("tr[data-id]")) == layers))
        address = self.browser.driver.current_url
        self.assertIn("sort=objective&descending=1&search=layer", address)
        self.open(address.removeprefix(self.base))
        self.assertTrue(self.until(lambda: len(self.all("tr[data-id]")) == layers))
        self.click(".menu summary")
        self.click(".menu label:nth-child(1) input")
        self.assertTrue(self.until(lambda: "model.hidden" not in self.one("thead").text))
        self.assertIn("hide=model.hidden", self.browser.driver.current_url)
        # Parallel coordinates: whoever drags over the lower end of the objective's axis keeps the best trial.
        self.one(".parallel polyline")
        self.assertEqual(len(self.all(".parallel polyline")), 6)
        self.browser.run("""const handle = document.querySelector('.parallel g ~ rect.handle:last-of-type');
            const box = handle.getBoundingClientRect(), at = (y) => ({clientX: box.left + 5, clientY: y, pointerId: 1, bubbles: true});
            handle.setPointerCapture = () => {};
            handle.dispatchEvent(new PointerEvent('pointerdown', at(box.bottom)));
            handle.dispatchEvent(new PointerEvent('pointermove', at(box.bottom - 12)));
            handle.dispatchEvent(new PointerEvent('pointerup', at(box.bottom - 12)));""")
        best = min(jobs.values(), key=lambda job: job["objective"])
        self.assertTrue(self.until(lambda: f"the best: trial {best['trial']} " in self.browser.text()), self.browser.text())
        self.assertTrue(self.all(".parallel polyline.off"))
        self.click("figure.wide:has(.parallel) .saves button:nth-child(1)")
        rows = self.rows_of(self.saved(".csv"))
        self.assertEqual({row["trial"]: float(row["holdout/mae"]) for row in rows}, {str(job["trial"]): job["objective"] for job in jobs.values()})
        self.click("figure.wide:has(.parallel) .saves button:nth-child(2)")
        self.assertRegex(self.saved(".svg"), r"^<svg .*<polyline ")
        importance = [row.text for row in self.all(".bars .name")]
        self.assertEqual(sorted(importance), ["model.hidden", "model.norm", "optimizer.learning_rate"])
        self.assertEqual(self.browser.errors(), [])

    def check_job(self, job):
        self.open(f"/job/{job['id']}")
        self.one("pre[aria-label=log]")
        self.assertTrue(self.until(lambda: HOSTILE in self.one("pre[aria-label=log]").text))
        self.assertEqual(self.browser.run("return document.querySelector('main img, main script')"), None)
        self.assertEqual(float(self.value("[data-name='holdout/mae'] span")), job["objective"])
        metrics = {row.find_element("css selector", "td").text: float(row.find_elements("css selector", "td")[1].get_attribute("data-value"))
                   for row in self.one("[aria-label=metrics] tbody").find_elements("css selector", "tr")}
        self.assertEqual(metrics, job["metrics"])
        self.assertEqual(len(self.all(".timeline rect.state")), job["attempt"])
        self.assertIn("ended", self.one("[aria-label=attempts] tbody").text)
        self.click("figure[aria-label='holdout/mae'] .saves button:nth-child(1)")
        self.assertEqual([int(row["step"]) for row in self.rows_of(self.saved(".csv"))], self.json_of("history", job["id"], "--json")["holdout/mae"]["steps"])
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
        running = wait_until(lambda: [job for job in self.json_of("status", sweep, "--json")["jobs"] if job["state"] == "active" and job["step"] > 0], 60)
        self.open(f"/job/{running[0]['id']}")
        step = lambda: int(re.search(r"step (\d+) of", self.one("[data-name=progress]").text)[1])
        seen = step()
        for _ in range(3):  # the agent reports once a second
            self.assertTrue(self.until(lambda: step() > seen, 3), "nothing new for three seconds")
            seen = step()

    def check_actions(self, sweep, done):
        state = lambda: self.json_of("status", sweep, "--json")["sweep"]["state"]
        self.open(f"/#token={self.token}")
        self.assertNotIn("token", self.browser.driver.current_url)
        self.click("[data-action=pause]")
        self.assertTrue(self.until(lambda: self.json_of("queue", "--json")["paused"]))
        self.click("[data-action=resume]")
        self.assertTrue(self.until(lambda: not self.json_of("queue", "--json")["paused"]))
        self.open(f"/sweep/{sweep}")
        self.click("[data-action=pause]")
        self.assertTrue(self.until(lambda: state() == "paused"))
        self.assertIn("paused; jobs that run go on", self.one("#notice").text)
        self.click("[data-action=resume]")
        self.assertTrue(self.until(lambda: state() == "running"))
        waiting = [job for job in self.json_of("status", sweep, "--json")["jobs"] if job["state"] == "waiting"][0]["id"]
        job = lambda: self.json_of("status", waiting, "--json")
        self.open(f"/job/{waiting}")
        self.one("input[aria-label=priority]")
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
        self.browser.run("sessionStorage.setItem('token', '0')")
        self.open(f"/sweep/{done}")
        self.click("[data-action=pause]")
        self.assertTrue(self.until(lambda: "the token is missing or wrong" in self.one("#notice").text))
        self.assertEqual(self.json_of("status", done, "--json")["sweep"]["state"], "running")

    def test_runs_side_by_side(self):
        for name, rate in (("fast", 0.01), ("slow & \"odd\"", 0.001)):
            self.train(run__directory=self.folder / "experiment" / name, optimizer__learning_rate=rate, trainer__log_every=2, trainer__steps=6, trainer__eval_every=2)
        self.start_board("experiment")
        self.open("/runs")
        self.assertTrue(self.until(lambda: len(self.all("tbody tr")) == 2))
        for i in (1, 2):
            self.click(f"tbody tr:nth-child({i}) input")
            self.assertTrue(self.until(lambda: len(self.all("[aria-label=rankings] tbody tr")) % i == 0 and self.all(".scatter circle")))
        self.assertTrue(self.until(lambda: self.all("[aria-label=settings]")))
        settings = self.one("[aria-label=settings]").text
        self.assertIn("optimizer.learning_rate", settings)
        self.assertNotIn("model.hidden", settings)
        rows = {(row["set"], row["group"]) for row in self.rows("experiment/fast/rankings.csv")}
        self.assertEqual(len(self.all("[aria-label=rankings] tbody tr")), 2 * len(rows))
        comparison = (self.folder / "experiment/fast/comparison.txt").read_text()
        shown = self.browser.run("""return [...document.querySelectorAll('[aria-label=rankings] tbody tr')].filter((row) => row.children[1].textContent === 'fast')
            .map((row) => [row.children[0].textContent, Number(row.children[4].dataset.value)])""")
        for name, tau in shown:
            set_, group = name.split(": ")
            self.assertRegex(comparison, rf"(?m)^ *{re.escape(group)} +{set_} .*{tau:.3f}")
        self.open(self.browser.driver.current_url.removeprefix(self.base))
        self.assertTrue(self.until(lambda: len(self.all("[aria-label=rankings] tbody tr")) == 2 * len(rows)), "the address is the comparison")
        self.run_foretime("report", "experiment", "-o", "experiment.html")
        self.browser.open((self.folder / "experiment.html").as_uri())
        self.assertTrue(self.until(lambda: len(self.all("[aria-label=rankings] tbody tr")) == 2 * len(rows) and self.all("figure canvas")), self.browser.errors())
        self.assertEqual(self.browser.errors(), [])
        self.run_foretime("report", "nothing-of-this-name", code=4)


if __name__ == "__main__":
    unittest.main()
