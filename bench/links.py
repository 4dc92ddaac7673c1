#!/usr/bin/env python3
"""Training over links of 1 and 10 Gbit/s: hosts are namespaces of this machine (tests/cluster/cluster.py), whose links tc shapes in both
directions. Needs root, the right to make namespaces, iproute2, util-linux and Open MPI; says so and ends with 77 where it cannot run.

  sums      sums of gradients over 2, 3, 4 hosts of one rank and over two hosts of two: MPI_Iallreduce, our exchange of pieces (`direct`), the
            same within hosts first (`hosts`), both also as bfloat16. The slowest rank's time of one call, the best of those in --seconds.
  training  a step and its exposed communication (metrics.jsonl: what the rank that waits least waits for, mean over steps), beside as many ranks
            on one host, where nothing travels by a link, and beside bench/step_time_bench, which is told the latency, bandwidth and
            time of a message of `sums` and the computing time of those ranks on one host.
  plan      what the same model says of 8, 64 and 512 ranks, one and eight a host, four groups each, with the latency measured here.

Hosts share this machine's cores: with more ranks than cores computing slows down and waiting ranks take each other's turns, so compare
rows with the same number of ranks. The kernel's own latency is all there is, unless --queue names a queue of tc that delays (netem).

usage: links.py --build build/release [--only sums,training,plan] [--links 1gbit,10gbit] [--hosts 2,3,4,2x2]
"""
import argparse
import json
import pathlib
import shutil
import signal
import sys
import tempfile

from common import SOURCE, reports, synthesize

sys.path.insert(0, str(SOURCE / "tests/cluster"))
from cluster import Cluster, missing  # noqa: E402

BITS = {"mbit": 1e6, "gbit": 1e9}
MODELS = {
    "residual GCN 2 x 32": {"model.type": "residual_gcn", "model.hidden": 32, "model.layers": 2},
    "SAGE 3 x 256": {"model.type": "sage", "model.hidden": 256, "model.layers": 3},
}
SETTINGS = """\
data: {{format: layout, train: {files}}}
sampler: {{groups_per_batch: 12, candidates_per_group: {candidates}, samples_per_group: 8}}
trainer: {{steps: {steps}, log_every: {log_every}, threads: 1, device: cpu}}
checkpoint: {{resume: never}}
"""


def bits(link):
    return float(link[:-4]) * BITS[link[-4:]]


class Hosts:
    def __init__(self, folder, count, build):
        self.cluster, self.build = Cluster(folder, hosts=count).up(), build

    def shape(self, link, queue):
        """The same queue at both ends of every host's cable, so that a host neither sends nor gets more."""
        for host in self.cluster.hosts:
            words = (
                "replace dev {end} root " + queue.format(rate=link, burst=max(128 << 10, int(bits(link) / 8 * 2e-4)))
                if link
                else "del dev {end} root"
            )
            done = self.cluster.run(host, "tc qdisc " + words.format(end="eth0"))
            if done.returncode and link:
                raise SystemExit(f"links.py: {words}: {done.stderr}")
            self.cluster.beside(f"tc qdisc {words.format(end='v' + host)}" + ("" if link else " 2> /dev/null || true"))

    def run(self, command):
        # Without ptrace's rights Open MPI copies twice, and says so at length.
        done = self.cluster.run("h1", command, env={"OMPI_MCA_btl_vader_single_copy_mechanism": "none"})
        if done.returncode:
            raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        return done.stdout

    def mpirun(self, where, command):
        """`where` is Open MPI's list, such as h1:2,h2:2."""
        ranks = sum(int(host.partition(":")[2] or 1) for host in where.split(","))
        return self.run(["mpirun", "-n", ranks, "--host", where, *command])


def layout(text):
    """Open MPI's list of hosts for "3" (one rank each) or "2x4" (four each)."""
    hosts, _, ranks = text.partition("x")
    return ",".join(f"h{i + 1}:{ranks or 1}" for i in range(int(hosts)))


def measure_sums(hosts, options, where):
    return json.loads(
        hosts.mpirun(where, [options.build / "bench/all_reduce_bench", "--sums", options.seconds]).splitlines()[-1]
    )


def fit_link(found):
    """Latency (s): half of the least sum. Bandwidth (bytes/s): of the largest, as seconds = 2 latency + 2 (n - 1) / n bytes / bandwidth."""
    share = 2 * (found["ranks"] - 1) / found["ranks"]
    small, large = found["sums"][0], found["sums"][-1]
    return small["direct"] / 2, share * large["bytes"] / (large["direct"] - small["direct"])


def sums(hosts, options):
    print(
        "## Sums of gradients\n\n| link | ranks | bytes | MPI_Iallreduce ms | direct | by hosts | direct bf16 | by hosts bf16 |\n|---|---|---|---|---|---|---|---|"
    )
    links = {}
    for link in options.links:
        hosts.shape(link, options.queue)
        for hosts_words in options.hosts:
            found = measure_sums(hosts, options, layout(hosts_words))
            for row in found["sums"]:
                cells = [
                    f"{1e3 * row[way]:.2f}" if way in row else ""
                    for way in ("mpi", "direct", "hosts", "direct_bf16", "hosts_bf16")
                ]
                print(f"| {link} | {hosts_words} | {row['bytes']} | {' | '.join(cells)} |", flush=True)
            if hosts_words == options.hosts[0]:
                links[link] = {**dict(zip(("latency", "bandwidth"), fit_link(found))), "message": found["message"]}
    for link, found in links.items():
        print(
            f"\n{link}: latency {1e6 * found['latency']:.0f} us, {found['bandwidth'] / 1e9:.3f} GB/s, {1e6 * found['message']:.1f} us a message of 2 KiB, "
            f"over {options.hosts[0]} hosts"
        )
    return links


class Trainings:
    def __init__(self, hosts, options, folder):
        self.hosts, self.options, self.folder, self.count = hosts, options, pathlib.Path(folder), 0
        self.foretime = options.build / "cli/foretime"
        files = [str(self.folder / f"synthetic_{i}.foretime") for i in range(12)]
        for seed, file in enumerate(files):
            synthesize(options.build, file, options.nodes, 60, 1000, seed + 1)
        self.settings = self.folder / "settings.yaml"
        self.settings.write_text(
            SETTINGS.format(
                files=json.dumps(files),
                candidates=options.candidates,
                steps=options.steps,
                log_every=max(1, options.steps // 6),
            )
        )

    def train(self, where, model, dtype="float32", hierarchical=True):
        """Seconds of a step and exposed seconds, without the first report; the run directory."""
        self.count += 1
        directory = self.folder / f"run{self.count}"
        values = {
            **MODELS[model],
            "comm.gradient_dtype": dtype,
            "comm.hierarchical": str(hierarchical).lower(),
            "run.directory": directory,
        }
        self.hosts.mpirun(
            where,
            [self.foretime, "train", "--quiet", self.settings, *(f"{key}={value}" for key, value in values.items())],
        )
        lines = reports(directory, 3)
        steps = lines[-1]["step"] - lines[0]["step"]
        exposed = sum(line["comm_exposed_ms"] for line in lines[1:]) / 1e3 / (len(lines) - 1)
        return (lines[-1]["seconds"] - lines[0]["seconds"]) / steps, exposed, directory

    def predict(self, ranks, model, link, directory, per_host=1, dtype="float32", by_hosts=True):
        words = [
            pathlib.Path(self.foretime).parents[1] / "bench/step_time_bench",
            self.settings,
            "--ranks",
            ",".join(map(str, ranks)),
            "--measured",
            directory,
            "--ranks-per-host",
            per_host,
            "--between-latency",
            link["latency"],
            "--between-bandwidth",
            link["bandwidth"],
            "--message-seconds",
            link["message"],
            *(f"{key}={value}" for key, value in MODELS[model].items()),
            "comm.backend=mpi",
            f"comm.gradient_dtype={dtype}",
            f"comm.hierarchical={str(by_hosts).lower()}",
        ]
        if per_host > 1:  # ranks of one host are processes that share memory
            words += ["--inside-latency", 2e-6, "--inside-bandwidth", 3e9]
        if max(ranks) > 12:
            words += ["--groups-per-rank", 4]
        return json.loads(self.hosts.run(words))


def training(trainings, options, links):
    print(
        "\n## Training\n\n| model | hosts | link | gradients | step ms | exposed ms | predicted exposed ms |\n|---|---|---|---|---|---|---|"
    )
    for model in MODELS:
        for words in options.hosts:
            hosts, _, per_host = words.partition("x")
            per_host = int(per_host or 1)
            ranks = int(hosts) * per_host
            step, exposed, directory = trainings.train(f"h1:{ranks}", model)
            print(
                f"| {model} | {ranks} ranks on one | | float32 | {1e3 * step:.1f} | {1e3 * exposed:.2f} | |", flush=True
            )
            for link in options.links:
                trainings.hosts.shape(link, options.queue)
                for dtype, by_hosts in [("float32", True), ("bfloat16", True)] + [("float32", False)] * (per_host > 1):
                    step, exposed, _ = trainings.train(layout(words), model, dtype, by_hosts)
                    found = trainings.predict([ranks], model, links[link], directory, per_host, dtype, by_hosts)[0]
                    name = dtype + (", direct" if not by_hosts else "")
                    print(
                        f"| {model} | {words} | {link} | {name} | {1e3 * step:.1f} | {1e3 * exposed:.2f} | {1e3 * found['exposed_seconds']:.2f} |",
                        flush=True,
                    )
                trainings.hosts.shape("", "")


def plan(trainings, options, links):
    print(
        "\n## Predictions\n\n| model | link | ranks a host | gradients | exposed ms (of a step) of "
        f"{', '.join(map(str, options.ranks))} ranks |\n|---|---|---|---|---|"
    )
    measured = links[options.links[-1]]
    for model in MODELS:
        directory = trainings.train("h1:1", model)[2]
        for link in ("1gbit", "10gbit", "100gbit"):
            # What TCP and MPI leave of a link, as of the one that was measured.
            own = {
                **measured,
                "bandwidth": bits(link)
                / 8
                * min(1, links[options.links[0]]["bandwidth"] / (bits(options.links[0]) / 8)),
            }
            for per_host in (1, 8):
                for dtype in ("float32", "bfloat16"):
                    found = trainings.predict(options.ranks, model, own, directory, per_host, dtype)
                    cells = ", ".join(
                        f"{1e3 * each['exposed_seconds']:.2f} ({100 * each['exposed_seconds'] / each['step_seconds']:.1f} %)"
                        for each in found
                    )
                    print(f"| {model} | {link} | {per_host} | {dtype} | {cells} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--build", type=pathlib.Path, required=True, help="build directory with cli/foretime and bench/all_reduce_bench"
    )
    parser.add_argument("--only", default="sums,training,plan")
    parser.add_argument("--links", default="1gbit,10gbit", help="rates in mbit or gbit")
    parser.add_argument(
        "--hosts", default="2,3,4,2x2", help="hosts, or hosts x ranks on each; the first tells latency and bandwidth"
    )
    parser.add_argument("--ranks", default="8,64,512", help="to predict")
    parser.add_argument(
        "--queue", default="tbf rate {rate} burst {burst} latency 20ms", help="tc's words, at both ends of each cable"
    )
    parser.add_argument("--seconds", type=float, default=0.5, help="for each sum")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--nodes", type=int, default=600, help="of each of twelve synthetic graphs")
    parser.add_argument("--candidates", type=int, default=4)
    parser.add_argument(
        "--measured",
        type=json.loads,
        help='in place of sums: {"1gbit": {"latency": s, "bandwidth": bytes/s, "message": s}, ...}',
    )
    options = parser.parse_args()
    if why := missing():
        print(f"links.py: {why}", file=sys.stderr)
        return 77
    options.build = options.build.resolve()
    options.links, options.hosts = options.links.split(","), options.hosts.split(",")
    options.ranks, only = [int(ranks) for ranks in options.ranks.split(",")], options.only.split(",")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts and files go with it
    folder = tempfile.mkdtemp(prefix="foretime-links-", dir="/var/tmp")  # hosts have a /tmp of their own
    hosts = Hosts(folder, max(int(words.partition("x")[0]) for words in options.hosts), options.build)
    try:
        links = options.measured or {}
        if "sums" in only:
            links = sums(hosts, options)
        if set(only) & {"training", "plan"} and set(options.links) - set(links):
            raise SystemExit("links.py: training and plan need sums, or --measured")
        hosts.shape("", "")
        if set(only) & {"training", "plan"}:
            trainings = Trainings(hosts, options, folder)
            if "training" in only:
                training(trainings, options, links)
            if "plan" in only:
                plan(trainings, options, links)
        if links:
            print("\n--measured", json.dumps(links))
    finally:
        hosts.cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
