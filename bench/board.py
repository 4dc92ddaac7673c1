"""The board beside a sweep of 100,000 trials that have ended: first paint, interactions, and what the server takes.

  /usr/bin/python3 bench/board.py --foretime build/release/cli/foretime [--trials 100000] [--folder DIR]

Prints one line of JSON: times in milliseconds, memory in MiB. The trials are submitted as any sweep; that they ended is
written into Redis as agents leave it, since 100,000 trainings take days. --folder keeps the queue for another time.
Needs Chromium and ChromeDriver (tools/install-deps.sh --tests), python3-redis and a build with the board (--board)."""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import common

sys.path.insert(0, str(common.SOURCE / "tests/cli"))
import browser  # noqa: E402

SWEEP = """
name: many
settings: base.yaml
method: random
run_cap: TRIALS
metric: {name: holdout/mae, goal: minimize}
parameters:
  model.hidden: {min: 4, max: 64}
  model.norm: {values: [none, layer]}
  optimizer.learning_rate: {distribution: log_uniform_values, min: 1.0e-4, max: 1.0e-1}
  sampler.candidates_per_group: {values: [4, 6, 8]}
"""
BASE = """
data: {format: programs, root: SAMPLES, train: [C1.npz], holdout: 0.2}
model: {type: gcn, hidden: 8}
loss: {type: huber, target: log_runtime}
trainer: {steps: 120, eval_every: 10, metric: holdout/mae, metric_goal: minimize, device: cpu}
"""
# What a click on something does, until the first row of the table is another one.
UNTIL_OTHER_ROW = """
const done = arguments[arguments.length - 1], before = document.querySelector('tr[data-id]').dataset.id, begin = performance.now();
new MutationObserver((_, watcher) => {
  const row = document.querySelector('tr[data-id]');
  if (row && row.dataset.id !== before) { watcher.disconnect(); done(performance.now() - begin); }
}).observe(document.getElementById('main'), {childList: true, subtree: true});
"""
BRUSH = """
const handle = document.querySelector('.parallel g ~ rect.handle:last-of-type'), box = handle.getBoundingClientRect();
handle.setPointerCapture = () => {};
const send = (kind, up) => handle.dispatchEvent(new PointerEvent('pointer' + kind, {clientX: box.left + 5, clientY: box.bottom - up, pointerId: 1, bubbles: true}));
send('down', 0);
const begin = performance.now();
for (let i = 1; i <= 10; ++i) send('move', 8 * i);
const each = (performance.now() - begin) / 10, released = performance.now();
send('up', 80);
return [each, performance.now() - released];
"""


def make_queue(foretime, folder, trials):
    """A sweep whose trials have all ended. Returns its id and how long submitting took."""
    import redis

    (folder / "base.yaml").write_text(BASE.replace("SAMPLES", str(common.SOURCE / "samples/resnet18_conv2d")))
    (folder / "sweep.yaml").write_text(SWEEP.replace("TRIALS", str(trials)))
    begin = time.monotonic()
    sweep = json.loads(common.run([foretime, "submit", "sweep.yaml", "--json"], cwd=folder))["sweep"]
    took = time.monotonic() - begin
    server = Server(foretime, folder)  # the queue's Redis lives as long as somebody uses it
    queue = redis.Redis(unix_socket_path=str(folder / "runs/.redis/redis.sock"), decode_responses=True)
    ids = queue.zrange(f"{{foretime}}:sweep:{sweep}:jobs", 0, -1)
    random.seed(1)
    now = int(time.time() * 1000)
    for first in range(0, len(ids), 2000):
        pipeline = queue.pipeline(transaction=False)
        for job in ids[first : first + 2000]:
            finished = now - random.randrange(36_000_000)
            pipeline.hset(
                f"{{foretime}}:job:{job}",
                mapping={
                    "state": "succeeded",
                    "objective": repr(random.uniform(0.002, 0.01)),
                    "step": 120,
                    "seconds": "3.5",
                    "claimed_ms": finished - 3500,
                    "finished_ms": finished,
                    "history": "holdout/mae 10+10x11 " + "O" * 3 * 12 + "\n",
                    "results": 1,
                    "attempt": 1,
                    "agent": "host:1:abc",
                },
            )
        pipeline.execute()
    queue.zunionstore("{foretime}:state:succeeded", ["{foretime}:state:waiting"])
    queue.delete("{foretime}:state:waiting")
    server.end()
    return sweep, took


class Server:
    def __init__(self, foretime, folder):
        self.process = subprocess.Popen(
            [foretime, "board", "--port", "0"], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        self.base, self.token = re.search(r"(http://\S+)/#token=(\S+)", self.process.stdout.readline()).groups()

    def ask(self, path):
        """Milliseconds until the whole answer is there; asked for the first time in a second."""
        time.sleep(1)
        begin = time.monotonic()
        urllib.request.urlopen(
            urllib.request.Request(self.base + path, headers={"Authorization": "Bearer " + self.token})
        ).read()
        return 1000 * (time.monotonic() - begin)

    def memory(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) / 1024

    def end(self):
        self.process.terminate()
        self.process.wait()

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(server, sweep):
    found = {"memory_empty": server.memory()}
    for name, path in (
        ("first_answer", f"/api/sweep?id={sweep}"),
        ("page", f"/api/sweep?id={sweep}&from=50000"),
        ("sorted", f"/api/sweep?id={sweep}&sort=objective"),
        ("searched", f"/api/sweep?id={sweep}&search=layer&sort=optimizer.learning_rate"),
        ("overview", f"/api/overview?id={sweep}"),
        ("curves", f"/api/curves?id={sweep}"),
        ("all_as_csv", f"/api/trials.csv?id={sweep}"),
    ):
        found[name] = server.ask(path)
    window = browser.Browser(1280, 900)
    try:
        window.open(f"{server.base}/sweep/{sweep}#token={server.token}")
        window.one("tr[data-id]", 30)
        found["first_paint"] = window.run("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
        begin = window.run("return performance.timeOrigin")
        found["table_shown"] = window.run("return Date.now()") - begin
        window.one(".parallel polyline", 30)
        found["all_shown"] = window.run("return Date.now()") - begin
        time.sleep(2)
        clicks = {
            "click_sort": "document.querySelector('th [data-key=objective]').click()",
            "click_next": "[...document.querySelectorAll('.tools button')].find((button) => button.textContent === 'Next').click()",
        }
        for name, script in clicks.items():
            found[name] = window.driver.execute_async_script(UNTIL_OTHER_ROW + script)
            time.sleep(2)
        found["brush_move"], found["brush_release"] = window.run(BRUSH)
        cpu, begin = server.cpu_seconds(), time.monotonic()
        time.sleep(8)
        found["server_cpu_share_while_followed"] = (server.cpu_seconds() - cpu) / (time.monotonic() - begin)
    finally:
        window.close()
    found["memory"] = server.memory()
    return found


def main():
    parser = common.options_of(__doc__, trials=100_000)
    parser.add_argument("--foretime", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    if browser.missing():
        sys.exit(browser.missing())
    foretime = options.foretime.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        known = folder / "sweep.json"
        if not known.exists():
            known.write_text(json.dumps(make_queue(foretime, folder, options.trials)))
        sweep, submitted = json.loads(known.read_text())
        server = Server(foretime, folder)
        try:
            found = measure(server, sweep)
        finally:
            server.end()
    print(
        json.dumps(
            {
                "trials": options.trials,
                "submit_seconds": round(submitted, 1),
                **{name: round(value, 3 if value < 10 else 0) for name, value in found.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
