"""What the benchmark scripts share: commands and their failures, options, and the graphs and reports that they read."""
import argparse
import contextlib
import json
import os
import pathlib
import shlex
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# glibc told to keep freed memory, as Foretime's program does for itself.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
# For mpirun on one machine: as root, and with more ranks than cores; Open MPI 5 knows the names with PRTE.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


def start(command, environment=None, **options):
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
        **options,
    )


def finish(process, accepted=(0,)):
    output, errors = process.communicate()
    if process.returncode not in accepted:
        raise SystemExit(
            f"{shlex.join(process.args)}: exit code {process.returncode}\n{output[-2000:]}{errors[-3000:]}"
        )
    return output


def run(command, environment=None, **options):
    """What a command prints. `environment` adds to this script's own."""
    return finish(start(command, environment, **options))


def synthesize(build, file, nodes, configurable, configurations, seed=1):
    """Writes a made-up layout graph to an .npz or a packed data set."""
    program = pathlib.Path(build) / "tests/support/synthesize_graph"
    run([program, file, nodes, configurable, configurations, seed])


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def options_of(doc, **numbers):
    """A parser with a script's text, and whole numbers as options."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser


def add_peer_options(parser):
    parser.add_argument("--peer", required=True, help="the PyTorch baseline's script")
    parser.add_argument("--data", required=True, help="folder with TpuGraphs layout files")
    parser.add_argument("--python", default="python3", help="an interpreter that has torch and numpy")


def find_graphs(folder, names):
    """The first file below the folder whose name begins so, for each name."""
    found = []
    for name in names:
        matches = sorted(path for path in pathlib.Path(folder).rglob("*.npz") if path.name.startswith(name))
        if not matches:
            raise SystemExit(f"{folder}: no {name}*.npz below it")
        found.append(str(matches[0].resolve()))
    return found


def reports(directory, least):
    """The reports of a training run's metrics.jsonl."""
    lines = [json.loads(line) for line in (pathlib.Path(directory) / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["kind"] == "train"]
    if len(lines) < least:
        raise SystemExit(f"{directory}: {len(lines)} reports, expected at least {least}: ask for more --steps")
    return lines


@contextlib.contextmanager
def redis_server(appendfsync="everysec"):
    """A redis-server of its own on a Unix socket, with long values in listpacks as the embedded one has them: the socket."""
    with tempfile.TemporaryDirectory() as folder:
        socket = pathlib.Path(folder) / "redis.sock"
        server = subprocess.Popen(
            [
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                socket,
                "--dir",
                folder,
                "--appendonly",
                "yes",
                "--appendfsync",
                appendfsync,
                "--save",
                "",
                "--maxclients",
                "10000",
                "--hash-max-listpack-value",
                "1024",
            ],
            stdout=subprocess.DEVNULL,
        )
        try:
            while not socket.exists():
                time.sleep(0.05)
            yield socket
        finally:
            server.kill()
            server.wait()
