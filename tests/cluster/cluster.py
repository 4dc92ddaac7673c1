#!/usr/bin/env python3
"""A cluster on one machine: hosts as namespaces, with a network between them, and Slurm and Redis as they are.

  cluster.py up FOLDER [--hosts N] [--slurm] [--redis]     prints READY and waits; ends at end of input, SIGTERM or SIGINT
  cluster.py run FOLDER HOST COMMAND …                     runs a command on a host
  cluster.py hosts FOLDER                                  names and addresses
  cluster.py cut|mend|kill FOLDER HOST                     unplugs its cable, plugs it in again, turns it off
  cluster.py crash FOLDER HOST                             cuts its power; mend gives it back
  cluster.py link FOLDER HOST [QUEUE …]                    as tc says it: tbf rate 1gbit burst 128kb latency 50ms

Each host has its own name, address (10.99.0.N), /tmp, /dev/shm and network; the rest of the file system is shared, FOLDER
among it (what lies below /tmp is not). All processes live in one namespace of processes, which ends with `up`: nothing is
left behind. Needs root, iproute2 and util-linux; with --slurm slurmctld, slurmd, slurm-client and munge; with --redis
redis-server, which runs on the first host.
"""
import argparse
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests/support"))

from waiting import LIMIT, wait_for, wait_until  # noqa: E402, F401

NETWORK = "10.99.0."
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
REDIS_PORT = 6379


def redis_words(data, *more):
    """The command of a server that other hosts reach, with its files in `data`."""
    words = f"redis-server --port {REDIS_PORT} --bind 0.0.0.0 --protected-mode no --appendonly yes --maxmemory-policy noeviction"
    return [*words.split(), "--save", "", "--dir", data, *more]


def missing(slurm=False, redis=False):
    """Why no cluster can be made here; empty where one can."""
    needed = ["unshare", "nsenter", "ip", "tc"] + (["slurmctld", "slurmd", "srun", "munged"] if slurm else [])
    for program in needed + (["redis-server"] if redis else []):
        if find(program) is None:
            return f"needs {program}"
    if os.geteuid() != 0:
        return "needs root"
    tried = subprocess.run(
        [*NAMESPACES, "sh", "-c", "ip link add try0 type veth peer name try1 && mount -t tmpfs tmpfs /mnt"],
        capture_output=True,
        text=True,
    )
    return "needs the right to make namespaces: " + tried.stderr.strip() if tried.returncode else ""


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def address(host):
    return f"{NETWORK}{int(host[1:])}"


class Cluster:
    """Made by `up`; used by tests through the methods below `up`."""

    def __init__(self, folder, hosts=3, slurm=False, redis=False, cpus=4):
        self.folder = pathlib.Path(folder).resolve()
        self.hosts = [f"h{i + 1}" for i in range(hosts)]
        self.slurm, self.redis, self.cpus = slurm, redis, cpus
        self.keeper = None

    def up(self):
        """Starts it in the background."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "ready").unlink(missing_ok=True)
        options = (
            [f"--hosts={len(self.hosts)}", f"--cpus={self.cpus}"] + ["--slurm"] * self.slurm + ["--redis"] * self.redis
        )
        with (self.folder / "keeper.log").open("w") as log:
            self.keeper = subprocess.Popen(
                [*NAMESPACES, sys.executable, __file__, "keep", self.folder, *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        if (
            not wait_until(lambda: (self.folder / "ready").exists() or self.keeper.poll() is not None)
            or self.keeper.poll() is not None
        ):
            self.down()
            raise RuntimeError("the cluster did not start: " + (self.folder / "keeper.log").read_text())
        # The first process of the namespace: what unshare forked.
        children = pathlib.Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text().split()
        (self.folder / "keeper.pid").write_text(children[0])
        return self

    def down(self):
        if self.keeper and self.keeper.poll() is None:
            self.keeper.kill()  # and with it, by --kill-child and the namespace, everything
            self.keeper.wait()
        if self.keeper and self.keeper.stdin:
            self.keeper.stdin.close()

    def environment(self):
        """Of every command on a host."""
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("FORETIME_", "SLURM_", "OMPI_", "PRTE_", "PMI", "TMPDIR"))
        }
        own |= {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            "PRTE_MCA_hwloc_default_binding_policy": "none",
            "PRTE_MCA_plm_ssh_agent": str(self.folder / "rsh"),
            "PRTE_MCA_prte_if_include": "eth0",
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_plm_rsh_agent": str(self.folder / "rsh"),
            "OMPI_MCA_btl_tcp_if_include": "eth0",
            "OMPI_MCA_oob_tcp_if_include": "eth0",
            "OMP_NUM_THREADS": "1",
        }
        if self.slurm:
            own["SLURM_CONF"] = str(self.folder / "slurm.conf")
        if self.redis:
            own["FORETIME_REDIS"] = f"redis://{address('h1')}:{REDIS_PORT}"
        return own

    def inside(self, host=None):
        """Words before a command that is to run on a host, or beside the hosts; from outside of the cluster."""
        words = ["nsenter", "-t", (self.folder / "keeper.pid").read_text(), "-m", "-n", "-p", "--"]
        return words + on_host(self.folder, host) if host else words

    def start(self, host, command, **options):
        """A subprocess.Popen of words, or of a line for the shell, in FOLDER/work."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        words = ["sh", "-c", command] if isinstance(command, str) else list(map(str, command))
        change = ["env", "-C", str(options.pop("cwd", work))]
        return subprocess.Popen(
            [*self.inside(host), *change, *words], env=self.environment() | options.pop("env", {}), **options
        )

    def run(self, host, command, **options):
        """Waits for a command; a subprocess.CompletedProcess with stdout and stderr as text."""
        process = self.start(
            host,
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            **options,
        )
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            self.start(None, ["pkill", "-9", "-f", words_of(command)]).wait()
            out, err = process.communicate()
            raise AssertionError(f"{host}: {command}: longer than {LIMIT} s\n{out[-3000:]}\n{err[-3000:]}") from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def cut(self, host):
        self.beside(f"ip link set v{host} down")

    def mend(self, host):
        self.beside(f"ip link set v{host} up")
        for each in self.folder.glob("h*.pid"):  # nobody is to remember that it could not be reached
            self.run(each.stem, "ip neigh flush dev eth0")

    def link(self, host, words=""):
        """A queue of tc for all that the host sends, such as `netem delay 50ms loss 1%` or `tbf rate 1gbit burst 128kb
        latency 50ms`; without words none. Not every kernel has netem."""
        done = self.run(host, f"tc qdisc {'replace' if words else 'del'} dev eth0 root {words}")
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    def kill(self, host):
        """Off, as by a power cut: its processes, all at once, and its place on the network."""
        self.cut(host)
        self.beside(f"{sys.executable} {__file__} off {self.folder} {host}")

    def crash(self, host):
        """A power cut after which the host can be mended: all that ran there is gone, without a word to anybody."""
        self.cut(host)
        self.beside(f"{sys.executable} {__file__} halt {self.folder} {host}")

    def beside(self, line):
        subprocess.run([*self.inside(), "sh", "-c", line], check=True, env=self.environment())


def words_of(command):
    return command if isinstance(command, str) else " ".join(map(str, command))


def on_host(folder, host):
    pid = (pathlib.Path(folder) / f"{host}.pid").read_text().strip()
    return ["nsenter", "-t", pid, "-n", "-u", "-m", "-i", "--"]


class Keeper:
    """Runs as the first process of the namespaces, and makes the hosts there."""

    def __init__(self, cluster):
        self.cluster, self.folder = cluster, cluster.folder
        self.environment = cluster.environment() | {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}

    def sh(self, line):
        subprocess.run(["sh", "-ec", line], check=True, env=self.environment)

    def daemon(self, host, name, words):
        with (self.folder / f"{name}.log").open("a") as log:
            subprocess.Popen(
                [*on_host(self.folder, host), *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )

    def make(self):
        names = "".join(f"{address(host)} {host}\n" for host in self.cluster.hosts)
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + names)
        rsh = self.folder / "rsh"
        rsh.write_text(
            f"#!/bin/sh\n# As ssh HOST COMMAND …: mpirun starts its daemons by it, and a host without power tells it nothing.\nhost=$1\nshift\n"
            f'nsenter -t "$(cat \'{self.folder}\'/"$host".pid)" -n -u -m -i -- sh -c "$*"\ncode=$?\n'
            "[ $code = 137 ] && exec sleep infinity\nexit $code\n"
        )
        rsh.chmod(0o755)
        self.sh(
            f"mount --make-rprivate / && mount --bind '{self.folder}/hosts' /etc/hosts && ip link set lo up && "
            "ip link add br0 type bridge && ip link set br0 up"
        )
        for host in self.cluster.hosts:
            self.make_host(host)
        if self.cluster.redis:
            data = self.folder / "redis"
            data.mkdir(exist_ok=True)
            self.daemon("h1", "redis", redis_words(data))
        if self.cluster.slurm:
            self.start_slurm()
        (self.folder / "ready").touch()

    def make_host(self, host):
        private = self.folder / host
        for name in ("tmp", "spool"):
            (private / name).mkdir(parents=True, exist_ok=True)
        (private / "tmp").chmod(0o1777)
        # A checkout below /tmp stays to be seen.
        keep = (
            f"mkdir -p '{private}/tmp/{SOURCE.relative_to('/tmp')}' && mount --rbind '{SOURCE}' '{private}/tmp/{SOURCE.relative_to('/tmp')}' && "
            if SOURCE.is_relative_to("/tmp")
            else ""
        )
        setup = (
            f"hostname {host} && ip link set lo up && {keep}mount --rbind '{private}/tmp' /tmp && mount -t tmpfs tmpfs /dev/shm && "
            "exec sleep infinity"
        )
        holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--ipc", "--mount", "sh", "-ec", setup], stdin=subprocess.DEVNULL
        )
        (self.folder / f"{host}.pid").write_text(str(holder.pid))
        wait_for(
            f"{host} is set up",
            lambda: pathlib.Path(f"/proc/{holder.pid}/comm").read_text().strip() == "sleep",
            pause=0.05,
        )
        self.sh(
            f"ip link add v{host} type veth peer name eth0 netns {holder.pid} && ip link set v{host} master br0 up && "
            f"{' '.join(on_host(self.folder, host))} sh -ec 'ip addr add {address(host)}/24 dev eth0 && ip link set eth0 up'"
        )

    def start_slurm(self):
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        socket = self.folder / "munge.socket"
        self.sh(
            f"munged --force --socket='{socket}' --key-file='{key}' --pid-file='{self.folder}/munged.pid' "
            f"--log-file='{self.folder}/munged.log' --seed-file='{self.folder}/munged.seed'"
        )
        nodes = "".join(
            f"NodeName={host} NodeAddr={address(host)} CPUs={self.cluster.cpus} RealMemory=4000 State=UNKNOWN\n"
            for host in self.cluster.hosts
        )
        (self.folder / "state").mkdir(exist_ok=True)
        (self.folder / "slurm.conf").write_text(
            textwrap.dedent(
                f"""\
            ClusterName=tests
            SlurmctldHost=h1({address("h1")})
            SlurmUser=root
            SlurmdUser=root
            AuthType=auth/munge
            AuthInfo=socket={socket},cred_expire=15
            CredType=cred/munge
            StateSaveLocation={self.folder}/state
            SlurmdSpoolDir={self.folder}/%n/spool
            SlurmctldPidFile={self.folder}/slurmctld.pid
            SlurmdPidFile={self.folder}/%n/slurmd.pid
            SlurmctldLogFile={self.folder}/slurmctld.log
            SlurmdLogFile={self.folder}/slurmd-%n.log
            SlurmdParameters=config_overrides
            ProctrackType=proctrack/linuxproc
            TaskPlugin=task/none
            SelectType=select/cons_tres
            SelectTypeParameters=CR_Core_Memory
            DefMemPerCPU=500
            SchedulerParameters=sched_interval=1,batch_sched_delay=0
            MpiDefault=none
            ReturnToService=1
            SlurmdTimeout=30
            KillWait=60
            MailProg=/bin/true
            PreemptType=preempt/partition_prio
            PreemptMode=REQUEUE
            """
            )
            + nodes
            + f"PartitionName=work Nodes={','.join(self.cluster.hosts)} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=100\n"
            + f"PartitionName=urgent Nodes={','.join(self.cluster.hosts)} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF\n"
        )
        self.daemon("h1", "slurmctld.out", ["slurmctld", "-D"])
        for host in self.cluster.hosts:
            self.daemon(host, f"slurmd-{host}.out", ["slurmd", "-D", "-N", host])

        def idle():
            done = subprocess.run(
                [*on_host(self.folder, "h1"), "sinfo", "-h", "-p", "work", "-t", "idle", "-o", "%D"],
                capture_output=True,
                text=True,
                env=self.environment,
            )
            return done.stdout.strip() == str(len(self.cluster.hosts))

        wait_for("all nodes are idle", idle)

    def wait(self):
        """Until the input ends; processes whose parents have gone are this one's children."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        os.set_blocking(0, False)
        while True:
            try:
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass
            except ChildProcessError:
                pass
            try:
                if os.read(0, 1) == b"":
                    return
            except BlockingIOError:
                pass
            time.sleep(0.2)


def turn_off(folder, host, for_good=True):
    """Kills what lives in the host's network, and itself last."""
    holder = (pathlib.Path(folder) / f"{host}.pid").read_text().strip()
    network = os.readlink(f"/proc/{holder}/ns/net")
    for _ in range(3):  # what was forked meanwhile
        for process in pathlib.Path("/proc").iterdir():
            try:
                if process.name.isdigit() and process.name != holder and os.readlink(process / "ns/net") == network:
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                pass
    if for_good:
        os.kill(int(holder), signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name in ("up", "keep", "run", "hosts", "cut", "mend", "kill", "off", "crash", "halt", "link"):
        action = actions.add_parser(name)
        action.add_argument("folder", type=pathlib.Path)
        if name in ("up", "keep"):
            action.add_argument("--hosts", type=int, default=3)
            action.add_argument("--cpus", type=int, default=4, help="that Slurm believes each host to have")
            action.add_argument("--slurm", action="store_true")
            action.add_argument("--redis", action="store_true")
        elif name != "hosts":
            action.add_argument("host")
        if name in ("run", "link"):
            action.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.action in ("up", "keep"):
        cluster = Cluster(options.folder, options.hosts, options.slurm, options.redis, options.cpus)
    else:
        cluster = Cluster(
            options.folder, 0, (options.folder / "slurm.conf").exists(), (options.folder / "redis").exists()
        )
    folder = cluster.folder
    if options.action == "keep":
        keeper = Keeper(cluster)
        keeper.make()
        keeper.wait()
    elif options.action == "up":
        why = missing(options.slurm, options.redis)
        if why:
            sys.exit(f"cluster.py: {why}")
        cluster.up()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            print("READY", flush=True)
            sys.stdin.read()
        except KeyboardInterrupt:
            pass
        finally:
            cluster.down()
    elif options.action == "run":
        return cluster.start(options.host, options.words, cwd=os.getcwd()).wait()
    elif options.action == "hosts":
        for host in sorted(folder.glob("h*.pid")):
            print(host.stem, address(host.stem))
    elif options.action in ("off", "halt"):
        turn_off(folder, options.host, options.action == "off")
    elif options.action == "link":
        cluster.link(options.host, " ".join(options.words))
    else:
        getattr(cluster, options.action)(options.host)
    return 0


if __name__ == "__main__":
    sys.exit(main())
