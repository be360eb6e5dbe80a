"""A real Slurm on this machine for the tests: one head and two nodes, each in namespaces of its own.

Every node has its own network, host name, process table, /tmp and /dev/shm, so that Ray and torchrun meet the
other node over the network alone, as on a cluster. The nodes share the folders in `shared`. The GPUs are
devices that answer nothing: Slurm counts them and hands them out. Partition `urgent` preempts the jobs of
`batch`, which are requeued. There is no accounting (no sacct); finished jobs stay visible for an hour.

Everything is a child of this process and ends with it, whatever kills it; no file outside `root` is written.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from recipes.verl_process import die_with_parent

HEAD, NETWORK = "slurmhead", "10.99.0"
NODES = ("node1", "node2")
CPUS, GPUS = 16, 8  # claimed a node, for the scheduler alone
DAEMONS = ("slurmctld", "slurmd", "munged", "ip", "unshare", "nsenter")
CLIENTS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun", "sacct")
START = 60.0  # seconds until the nodes must answer
ENDED = (
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
    "OUT_OF_MEMORY",
)  # fmt: skip

CONF = """\
ClusterName=tests
SlurmctldHost={head}({network}.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge/munge.sock,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SlurmctldPidFile={root}/state/slurmctld.pid
SlurmdPidFile={root}/spool/%n/slurmd.pid
SlurmdSpoolDir={root}/spool/%n
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
StateSaveLocation={root}/state
SlurmdParameters=config_overrides
SlurmdTimeout=20
JobRequeue=1
KillWait=5
MinJobAge=3600
UnkillableStepTimeout=20
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=2,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={root}/log/jobs.txt
GresTypes=gpu
{nodes}
PartitionName=batch Nodes=ALL Default=YES MaxTime=1:00:00 PriorityTier=1 PreemptMode=REQUEUE GraceTime=5
PartitionName=urgent Nodes=ALL MaxTime=1:00:00 PriorityTier=10
"""
# Without DNS in there: torchrun asks for its own full name and would wait for time-outs.
OWN_NAMES = """\
hostname "$1"
mount --bind "$2/hosts" /etc/hosts
if [ -e /etc/nsswitch.conf ]; then mount --bind "$2/nsswitch.conf" /etc/nsswitch.conf; fi
ip link set lo up
"""
START_HEAD = (
    "set -e\n"
    + OWN_NAMES
    + """\
ip link add br0 type bridge
ip addr add "$3.254/24" dev br0
ip link set br0 up
munged --force --foreground --key-file="$2/munge/key" --socket="$2/munge/munge.sock" --num-threads=2 \
    --pid-file="$2/munge/munged.pid" --log-file="$2/log/munged.log" --seed-file="$2/munge/seed" &
while [ ! -S "$2/munge/munge.sock" ]; do sleep 0.05; done
slurmctld -D -f "$2/slurm.conf" &
wait -n
"""
)
# The first line of its input says that the network is there. The shared folders below /tmp are put into the
# node's own /tmp before that one hides this machine's. The shell stays: it buries what others leave behind.
START_NODE = (
    "set -e\nread -r _\n"
    + OWN_NAMES
    + """\
own=$2/tmp/$1; name=$1; conf=$2/slurm.conf
shift 2
for folder in "$@"; do
  mkdir -p "$own${folder#/tmp}"
  mount --bind "$folder" "$own${folder#/tmp}"
done
mount --rbind "$own" /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
slurmd -D -N "$name" -f "$conf" &
wait $!
"""
)
CLIENT = """\
#!/bin/sh
# A job's own network reaches the head; the test's does not.
[ -n "$SLURM_JOB_ID" ] && exec {path} "$@"
export SLURM_CONF={conf}
exec nsenter --target {head} --net --uts -- {path} "$@"
"""


def missing() -> str | None:
    """Why no such cluster can start here; None where it can."""
    if os.geteuid() != 0:
        return "a Slurm with nodes in namespaces needs root"
    if absent := [name for name in (*DAEMONS, *CLIENTS[:-1]) if shutil.which(name) is None]:
        return f"not installed: {', '.join(absent)} (make test-slurm installs them where there is apt)"
    words = [*_unshare("--ipc"), "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"no namespaces for this root: {tried.stderr.strip()}" if tried.returncode else None


class Cluster:
    """The cluster of the folder `root`, which must not exist or be empty; see the module."""

    def __init__(self, root: Path, shared: Sequence[Path] = ()) -> None:
        self.root = root
        resolved = {path.resolve() for path in (root, *shared)}
        in_tmp = sorted(path for path in resolved if path.is_relative_to("/tmp"))
        self._shared = [p for p in in_tmp if not any(p != q and p.is_relative_to(q) for q in in_tmp)]
        self._head: subprocess.Popen[str] | None = None
        self._nodes: dict[str, subprocess.Popen[str]] = {}

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach the cluster, beside its own environment."""
        bin_first = f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": bin_first, "SLURM_CONF": str(self.root / "slurm.conf")}

    def start(self) -> None:
        """Start head and nodes and wait until the nodes take jobs.

        Raises:
            RuntimeError: they did not, with the end of the logs.
        """
        self._write_files()
        words = ["bash", "-c", START_HEAD, "head", HEAD, str(self.root), NETWORK]
        self._head = self._spawn([*_unshare(), *words])
        self._write_clients(self._head.pid)
        self._until(lambda: (self.root / "munge" / "munge.sock").exists(), "munged does not answer")
        for name in NODES:
            self.start_node(name)

    def start_node(self, name: str) -> None:
        """Start a node, or start it again after `kill_node`, and wait until it takes jobs."""
        assert self._head is not None
        words = ["bash", "-c", START_NODE, "node", name, str(self.root), *map(str, self._shared)]
        node = self._nodes[name] = self._spawn([*_unshare("--ipc"), *words])
        self._until(lambda: _own_network(node.pid), f"{name} has no namespace")
        number = NODES.index(name) + 1
        link = f"v{number}"
        _run(
            "ip",
            "link",
            "add",
            link,
            "netns",
            self._head.pid,
            "type",
            "veth",
            "peer",
            "eth0",
            "netns",
            node.pid,
        )
        _inside(self._head.pid, "ip", "link", "set", link, "master", "br0", "up")
        _inside(node.pid, "ip", "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
        _inside(node.pid, "ip", "link", "set", "eth0", "up")
        _inside(node.pid, "ip", "route", "add", "default", "via", f"{NETWORK}.254")
        assert node.stdin is not None
        node.stdin.write("go\n")
        node.stdin.flush()
        up = ("idle", "mixed", "allocated")
        self._until(lambda: self._node_state(name) in up, f"{name} does not take jobs")

    def kill_node(self, name: str) -> None:
        """End a node and all that runs on it at once, as a power cut does; the head finds out by itself."""
        node = self._nodes.pop(name)
        node.kill()  # --kill-child: the kernel ends the namespace's first process, and so everything in it
        node.wait()

    def stop(self) -> None:
        """End everything and delete the folder."""
        for name in list(self._nodes):
            self.kill_node(name)
        if self._head is not None:
            self._head.kill()
            self._head.wait()
            self._head = None
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, *words: str, check: bool = True) -> str:
        """What a client command (`squeue -h`) printed, as a user at the head would call it."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def job(self, job_id: str) -> dict[str, str]:
        """The fields of `scontrol show job`; of an array, those of its last task named."""
        text = self.run("scontrol", "show", "job", "-o", job_id).splitlines()[-1]
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def state(self, job_id: str) -> str:
        return self.job(job_id)["JobState"]

    def wait(self, job_id: str, states: Sequence[str] = ENDED, timeout: float = 120.0) -> str:
        """Wait until the job is in one of `states` and return which.

        Raises:
            TimeoutError: it is in none of them after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while (state := self.state(job_id)) not in states:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job_id} is {state} after {timeout:.0f} s: {self.job(job_id)}")
            time.sleep(0.3)
        return state

    def processes(self, name: str) -> list[str]:
        """The command lines of what runs on a node, but for the node's own."""
        inside = os.stat(f"/proc/{self._nodes[name].pid}/ns/pid_for_children").st_ino
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            try:
                same = os.stat(f"/proc/{process.pid}/ns/pid").st_ino == inside
            except OSError:  # it ended just now, or is none of ours to look at
                continue
            words = process.info["cmdline"] or []
            own = START_NODE in words or words[:1] == ["slurmd"] or "slurmstepd" in " ".join(words[:1])
            if same and words and not own and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(" ".join(words))
        return found

    def _node_state(self, name: str) -> str:
        return self.run("sinfo", "-h", "-N", "-n", name, "-p", "batch", "-o", "%T", check=False)

    def _write_files(self) -> None:
        for folder in ("bin", "gpu", "log", "munge", "state", "spool", *(f"spool/{name}" for name in NODES)):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o755)  # munged refuses a socket that others cannot reach
        for name in NODES:
            (self.root / "tmp" / name).mkdir(parents=True)
            (self.root / "tmp" / name).chmod(0o1777)
        key = self.root / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for number in range(GPUS):
            os.mknod(self.root / "gpu" / f"nvidia{number}", 0o20666, os.makedev(1, 3))
        hosts = {"127.0.0.1": "localhost", f"{NETWORK}.254": HEAD}
        hosts |= {f"{NETWORK}.{number}": name for number, name in enumerate(NODES, 1)}
        (self.root / "hosts").write_text("".join(f"{ip} {name}\n" for ip, name in hosts.items()))
        (self.root / "nsswitch.conf").write_text("hosts: files\n")
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={name} NodeAddr={NETWORK}.{number} CPUs={CPUS} RealMemory=16000 "
            f"Gres=gpu:{GPUS} State=UNKNOWN"
            for number, name in enumerate(NODES, 1)
        )
        text = CONF.format(root=self.root, head=HEAD, network=NETWORK, nodes=nodes)
        (self.root / "slurm.conf").write_text(text)
        gres = f"NodeName={','.join(NODES)} Name=gpu File={self.root}/gpu/nvidia[0-{GPUS - 1}]\n"
        (self.root / "gres.conf").write_text(gres)

    def _write_clients(self, head: int) -> None:
        for name in CLIENTS:
            if path := shutil.which(name):
                client = self.root / "bin" / name
                client.write_text(CLIENT.format(path=path, conf=self.root / "slurm.conf", head=head))
                client.chmod(0o755)

    def _spawn(self, words: list[str]) -> "subprocess.Popen[str]":
        environment = {**os.environ, "SLURM_CONF": str(self.root / "slurm.conf")}
        with open(self.root / "log" / "start.log", "a", encoding="utf-8") as log:
            return subprocess.Popen(
                words, env=environment, text=True, stdin=subprocess.PIPE, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent,
            )  # fmt: skip

    def _until(self, condition, failure: str) -> None:
        deadline = time.monotonic() + START
        while not condition():
            if time.monotonic() > deadline:
                logs = sorted((self.root / "log").glob("*.log"))
                ends = [f"{path.name}: {path.read_text(errors='replace')[-800:]}" for path in logs]
                raise RuntimeError("\n".join([failure, *ends]))
            time.sleep(0.1)


def _unshare(*more: str) -> list[str]:
    return ["unshare", "--net", "--uts", "--mount", "--pid", *more, "--fork", "--kill-child", "--mount-proc"]


def _own_network(pid: int) -> bool:
    return os.stat(f"/proc/{pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino


def _inside(pid: int, *words: str) -> None:
    _run("nsenter", "--target", pid, "--net", *words)


def _run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


def without_slurm(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what a surrounding Slurm job set."""
    return {name: value for name, value in environment.items() if not name.startswith(("SLURM_", "SBATCH_"))}
