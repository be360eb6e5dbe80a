"""A stage as the script of a Slurm job: what the job asks for, what it exports, what it runs.

The templates beside this file hold the script; everything that differs from stage to stage is found here.
"""

import shlex
import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from data_prep.views.settings import paths
from launch.local import CPU_ENVIRONMENT, sharding
from recipes import devices
from recipes.ray_cluster import FOREIGN
from recipes.stages import Stage

ROOT = Path(__file__).resolve().parent.parent.parent
STRIP = shlex.join(["env", *(word for name in FOREIGN for word in ("-u", name))])
NODES = ("sft", "grpo")  # stages that spread over nodes
SAVES = ("base", *NODES)  # stages that save when they are asked to, and then end
REPORT, COLLECT, CELLS = "report", "collect", "cells"  # jobs that are no stages

# Stage -> what it counts, and bash that prints how far it is.
STEP = "ls \"$RUN\"/{} 2>/dev/null | sed -n 's/.*{}\\([0-9]*\\)$/\\1/p' | sort -n | tail -n 1"
PROGRESS = {
    "base": ("step", STEP.format("checkpoints", "checkpoint-")),
    "sft": ("step", STEP.format("checkpoints", "checkpoint-")),
    "grpo": ("step", STEP.format("verl/checkpoints", "global_step_")),
    CELLS: ("count", '"$PYTHON" -m launch.slurm.cell "$RUN" progress'),
    "eval": ("answer", 'cat "$RUN/predictions.jsonl" 2>/dev/null | wc -l'),
}
FILES = ("file", 'find "$RUN" -type f -not -path "*/attempts/*" | wc -l')
REMEDY = "give it more cluster.time or save more often (sft.save_every, grpo.save_every)."


@dataclass(frozen=True)
class Needs:
    """What a job asks Slurm for: `nodes`, and of each CPUs, GPUs and memory; `time` as Slurm writes it."""

    nodes: int
    cpus: int
    gpus: int
    memory: str | None
    time: str
    partition: str | None


def needs(name: str, config: dict[str, Any]) -> Needs:
    """The resources of stage `name` (or of "report") by its configuration."""
    cluster, gpus = config["cluster"], _gpus(name, config)
    if not gpus and name not in NODES:
        own = cluster["cpu_jobs"]
        return Needs(1, own["cpus"], 0, own["memory"], own["time"], own["partition"] or cluster["partition"])
    nodes = devices.nodes(cluster) if name in NODES else 1
    cpus, memory = cluster["cpus"], cluster["memory"]
    if 0 < gpus < cluster["gpus"]:  # a part of a node, whose memory Slurm shares out
        cpus, memory = max(1, cpus * gpus // cluster["gpus"]), None
    return Needs(nodes, cpus, gpus, memory, cluster["time"], cluster["partition"])


def _gpus(name: str, config: dict[str, Any]) -> int:
    """GPUs a node."""
    if name in (REPORT, COLLECT):
        return 0
    if name == "prep":
        data = config["data"]
        return int(data.get("views") == "depth" and data["views_depth"]["device"] == "cuda")
    if config.get("model", {}).get("device") != "cuda":
        return 0
    if name in NODES:
        return config["cluster"]["gpus"]
    if name == "eval":
        evaluation = config["eval"]
        if evaluation["engine"] == "openai" and not evaluation["serve"]:
            return 0
        return config["vllm"]["tensor_parallel"] if evaluation["serve"] else 1
    return 1


def stage_script(stage: Stage, cwd: Path) -> str:
    """The script of the job of `stage`, submitted in the folder `cwd`, from which relative paths start."""
    template = f"{stage.name if stage.name in NODES and _spreads(stage) else 'stage'}.sh.j2"
    return script(stage.name, stage.path.absolute(), stage.config, cwd, _command(stage), template)


def report_script(folder: Path, config: dict[str, Any], cwd: Path) -> str:
    """The script of the job that writes the report of the configuration kept in `folder`/config.yaml."""
    command = '"$PYTHON" -m launch.slurm.report "$RUN"'
    return script(REPORT, folder.absolute(), config, cwd, command, "stage.sh.j2")


def script(
    name: str,
    folder: Path,
    config: dict[str, Any],
    cwd: Path,
    command: str,
    template: str,
    asked: Needs | None = None,
    array: str | None = None,
    runs: Path | None = None,
) -> str:
    """The script that runs `command` for `name`, a stage or one of the other jobs, in `folder`.

    It asks for `asked`, else for what `needs` says. `array` are the indices of a job array ("0,3-5%4"), each
    of whose tasks has the folder of its index below `folder`. `runs` is the folder of all runs.
    """
    cluster = config["cluster"]
    asked, saves = asked or needs(name, config), name in (*SAVES, CELLS)
    unit, progress = PROGRESS.get(name, FILES)
    own = sys.executable if cluster["container"] == "none" else "python3"
    return _templates().get_template(template).render(
        title=f"{name} of {folder.parent.name}",
        options=[*_options(name, folder, cluster, asked, cwd), *([f"--array={array}"] if array else [])],
        folder=str(folder),
        array=array is not None,
        manifest=name not in (REPORT, COLLECT, CELLS),
        setup=cluster["setup"],
        exports={"PYTHON": cluster["python"] or own, **_exports(name, config)},
        packages=str(ROOT) if cluster["container"] == "none" else None,
        unit=unit,
        progress=progress,
        remedy=REMEDY if saves else "give it more time (cluster.cpu_jobs.time, cluster.time).",
        max_restarts=cluster["max_restarts"],
        nodes=asked.nodes,
        grace=max(cluster["signal"] - 60, cluster["signal"] // 2) if saves else 0,
        strip=STRIP,
        command=command,
        start_timeout=cluster["start_timeout"],
        **_steps(cluster, runs or folder.parent.parent, cwd, asked),
    )  # fmt: skip


def _spreads(stage: Stage) -> bool:
    """Whether a stage takes more than one process. GRPO's Ray is always the job's own."""
    return stage.name == "grpo" or devices.count(stage.config) > 1


def _command(stage: Stage) -> str:
    """The stage itself. For SFT it runs on every node, where Slurm has set SLURM_NODEID."""
    module = f'recipes {stage.name} "$RUN"'
    if stage.name != "sft" or not _spreads(stage):
        return f'"$PYTHON" -m {module}'
    nodes, a_node = devices.nodes(stage.config["cluster"]), devices.a_node(stage.config)
    if stage.config["model"]["device"] == "cpu":
        return (
            f'"$PYTHON" -m torch.distributed.run --nnodes={nodes} --node-rank="$SLURM_NODEID" '
            f'--nproc-per-node={a_node} --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" '
            f"--max-restarts=0 -m {module}"
        )
    # Accelerate's launcher is torchrun with the variables of DeepSpeed and FSDP set.
    flags = shlex.join(sharding(stage.config))
    launcher = " --deepspeed_multinode_launcher standard" if "--use_deepspeed" in flags and nodes > 1 else ""
    return (
        f'"$PYTHON" -m accelerate.commands.launch --num_processes {nodes * a_node} --num_machines {nodes} '
        f'--machine_rank "$SLURM_NODEID" --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT" '
        f"--same_network --rdzv_backend static --dynamo_backend no {flags}{launcher} --module {module}"
    )


def _options(name: str, folder: Path, cluster: dict[str, Any], asked: Needs, cwd: Path) -> list[str]:
    """The options of sbatch that stand in the script."""
    log = str(folder / "slurm" / "%j.txt").replace("%", "%%").replace("%%j", "%j")
    given: list[tuple[str, Any]] = [
        ("job-name", f"{name}-{folder.parent.name}"),
        ("chdir", f'"{cwd}"'),
        ("output", f'"{log}"'),
        ("open-mode", "append"),
        ("nodes", asked.nodes),
        ("ntasks-per-node", 1),
        ("cpus-per-task", asked.cpus),
        ("gpus-per-node", asked.gpus or None),
        ("mem", asked.memory),
        ("time", asked.time),
        ("partition", asked.partition),
        ("account", cluster["account"]),
        ("qos", cluster["qos"]),
        ("signal", f"B:USR1@{cluster['signal']}"),
    ]
    return [
        *(f"--{key}={value}" for key, value in given if value is not None),
        "--requeue",
        *cluster["options"],
    ]


def _exports(name: str, config: dict[str, Any]) -> dict[str, str]:
    """Variables that stand in the script. Secrets never do: they come through `sbatch --export=NAME`."""
    cluster = config["cluster"]
    found = {"PYTHONUNBUFFERED": "1"}
    if cluster["offline"]:
        found |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        found |= {"WANDB_MODE": "offline"} if config["logger"] == "wandb" else {}
    if config.get("model", {}).get("device") == "cpu":
        found |= CPU_ENVIRONMENT
    if name in (*NODES, CELLS):
        found |= {key: str(value) for key, value in cluster["nccl"].items() if value is not None}
    return found


def _steps(cluster: dict[str, Any], runs: Path, cwd: Path, asked: Needs) -> dict[str, str]:
    """What stands before a command: `on_head` before one that runs once, on the node of the script;
    `on_nodes` with further options of srun, and then `inside`, before one that runs on every node."""
    container = _container(cluster, runs, cwd)
    every = (
        f"srun --export=ALL --overlap --nodes={asked.nodes} --ntasks={asked.nodes} --ntasks-per-node=1 "
        f"--cpus-per-task={asked.cpus} --kill-on-bad-exit=1"
    )
    if cluster["container"] == "pyxis":
        one = f"srun --export=ALL --overlap --nodes=1 --ntasks=1 --cpus-per-task={asked.cpus} {container}"
        return {"on_head": one, "on_nodes": f"{every} {container}", "inside": ""}
    return {"on_head": container, "on_nodes": every, "inside": container}


def _container(cluster: dict[str, Any], runs: Path, cwd: Path) -> str:
    kind, image = cluster["container"], cluster["image"]
    if kind == "none":
        return ""
    own = [str(path) for path in dict.fromkeys((cwd, runs))]
    mounts = ",".join([*(f"{path}:{path}" for path in own), *paths(cluster["mounts"])])
    if kind == "pyxis":
        return shlex.join(
            ["--container-image", image, "--container-mounts", mounts, "--container-workdir", str(cwd)]
        )
    return shlex.join(["apptainer", "exec", "--nv", "--bind", mounts, "--pwd", str(cwd), image])


@cache
def _templates() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = files("launch.slurm") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # bash, quoted by the filter `sh`
    )
    environment.filters["sh"] = lambda value: shlex.quote(str(value))
    return environment
