"""`dry_run=true`: the whole of what a command would do, with nothing started and nothing written."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.cvsbench import find_files
from data_prep.cvsbench.layout import SPLITS, parts
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.views.settings import paths as listed
from launch import estimate
from launch.local import stage_command, stage_environment
from launch.pipeline import REPEATED, label, shown, stages_of
from launch.preflight import findings, notes
from recipes.run_dir import RunDir
from recipes.stages import ENDPOINT, ONE_CHECKPOINT, Stage

WRITES = {
    "generate": "release/, set_aside.jsonl, answers.json, replies/",
    "audit": "audit.json, findings.jsonl",
    "prep": "images/, rows/{sft,rl,test}.jsonl, rl.parquet, quarantine.jsonl",
    "base": "checkpoint/",
    "sft": "checkpoint/, checkpoints/ (to resume from), metrics.jsonl",
    "grpo": "checkpoint/, probe.json, rollouts.jsonl, metrics.jsonl, verl.log, verl/ (to resume from)",
    "eval": "predictions.jsonl, scores.json, official.json, attempts.jsonl, engine.json, failures.jsonl",
    "parity": "parity.json",
    "serve": "vllm.log",
}
ALWAYS = "config.yaml, inputs.json, command.txt, environment.txt"


def show(command: str, config: DictConfig) -> int:
    """Print the resolved configuration, the stages with files and commands, and what stands in the way."""
    print("# Configuration\n")
    print(OmegaConf.to_yaml(config, resolve=True))
    print("# Stages\n")
    stages = stages_of(command, config)
    for stage in stages:
        for line in _describe(stage):
            print(line)
        print()
    if command in ("pipeline", "report"):
        print(f"report\n  writes   {shown(stages[0].path.parent)}/report.html, viewer/\n")
    if config.cluster.name == "slurm":
        for line in _scripts(command, config, stages):
            print(line)
    for line in (*_teacher(config, stages), *_generation(config, stages)):
        print(line)
    if estimated := estimate.table(config, stages):
        print("\n".join(["# Estimate\n", *estimated, ""]))
    if told := notes(config, stages):
        print("# Worth knowing\n")
        for line in told:
            print(f"- {line}")
        print()
    found = findings(config, stages)
    print("# This machine\n")
    for finding in found:
        print(f"- {finding}")
    print("It could not start here." if found else "Nothing stands in the way.", "This was a dry run.")
    return 0


def _scripts(command: str, config: DictConfig, stages: Sequence[Stage]) -> Iterator[str]:
    """The scripts of the jobs, as they would be submitted."""
    from launch.slurm.render import report_script, stage_script
    from launch.slurm.submit import report_folder, variables

    for stage in stages:
        if not stage.finished:
            names = ", ".join(variables(stage.config)) or "none"
            yield f"# Job: {label(stage)} (variables passed on from here, by name: {names})\n"
            yield stage_script(stage, Path.cwd())
    if command == "pipeline":
        container: Any = OmegaConf.to_container(config, resolve=True)
        yield "# Job: report\n"
        yield report_script(report_folder(stages), container, Path.cwd())


def _asks_teacher(stage: Stage) -> bool:
    return stage.name == "prep" and stage.config["teacher"]["kind"] == "openai"


def _teacher(config: DictConfig, stages: Sequence[Stage]) -> Iterator[str]:
    """Three requests to a teacher, as they would be sent."""
    prep = next((stage for stage in stages if _asks_teacher(stage) and not stage.finished), None)
    if prep is None:
        return
    from data_prep.teacher.preview import preview

    synthetic = config.data.synthetic is not None
    root = prep.path / "release" if synthetic else Path(config.data.root)
    yield f"# Teacher\n\nThree of its requests; a run keeps them in {shown(prep.path)}/teacher/prompts.md.\n"
    if synthetic and not root.exists():
        yield "They can be shown once prep has drawn the release.\n"
        return
    try:
        yield from preview(config.data, config.teacher, config.prompt.format, root)
    except UserError as error:
        yield f"They cannot be shown: {error}\n"


def _generation(config: DictConfig, stages: Sequence[Stage]) -> Iterator[str]:
    """What generation would ask."""
    pairs = config.generation.pairs
    if "generate" not in [stage.name for stage in stages] or pairs is None or not Path(pairs).is_dir():
        return
    from data_prep.generation.preview import preview

    yield "# Requests\n"
    try:
        yield from preview(config.generation)
    except UserError as error:
        yield f"They cannot be shown: {error}"
    yield ""


def _describe(stage: Stage) -> Iterator[str]:
    repeated = stage.name in ("audit", *REPEATED)
    begun = not repeated and (stage.path / "config.yaml").exists()
    state = "finished" if stage.finished else "to go on" if begun else "to run"
    yield f"{label(stage)} ({state})"
    yield f"  folder   {shown(stage.path)}"
    yield from (f"  reads    {source}" for source in _reads(stage))
    teacher = ", teacher/, teacher_report.{md,json}" if _asks_teacher(stage) else ""
    manifest = "" if repeated else ", manifest.json"
    yield f"  writes   {WRITES[stage.name]}{teacher}; {ALWAYS}{manifest}"
    environment = [f"{key}={shlex.quote(value)}" for key, value in stage_environment(stage).items()]
    yield f"  command  {' '.join([*environment, shlex.join(stage_command(stage))])}"
    if stage.name == "grpo":
        yield from _verl(stage)
    if stage.name == "serve" or (stage.name in ONE_CHECKPOINT and stage.config["eval"]["serve"]):
        yield f"  vllm     {shlex.join(_vllm(stage))}"


def _vllm(stage: Stage) -> list[str]:
    from recipes import serve

    config = OmegaConf.create(stage.config)
    assert isinstance(config, DictConfig)
    checkpoint = config.eval.checkpoint
    if checkpoint in stage.inputs:
        checkpoint = str(stage.inputs[checkpoint].path / "checkpoint")
    elif checkpoint == "base":
        checkpoint = config.model.path
    return serve.command(config, checkpoint)


def _reads(stage: Stage) -> Iterator[str]:
    config = stage.config
    if stage.name == "generate":
        yield f"{config['generation']['pairs']} (the image pairs)"
    if stage.name in ("prep", "audit"):
        made_here = config["data"]["synthetic"] is not None
        yield (
            "a synthetic release that it writes itself"
            if made_here
            else f"{config['data']['root']} (the release)"
        )
    if stage.name == "audit":
        yield from _sources(config["data"])
    if stage.name == "prep":
        if config["teacher"]["kind"] == "file":
            yield f"{config['teacher']['path']} (the teacher's reasoning)"
        if config["teacher"]["kind"] == "openai":
            yield f"{config['teacher']['model']} at {config['teacher']['base_url']} (the teacher)"
        if config["data"].get("views", "none") != "none":
            folders = listed(config["data"]["views_root"]) or ["the release"]
            yield f"{', '.join(folders)} (files of {config['data']['views']} views)"
        if config["prompt"]["file"]:
            yield f"{config['prompt']['file']} (the instruction)"
    for name, source in stage.inputs.items():
        yield f"{shown(source.path)} ({name})"
    if "model" in config and stage.name != "base" and config["model"]["build"] is None:
        yield f"{config['model']['path']} (the base model)"
    if stage.name not in ONE_CHECKPOINT:
        return
    if config["eval"]["checkpoint"] not in ("base", ENDPOINT, *stage.inputs):
        yield f"{config['eval']['checkpoint']} (the checkpoint)"
    if stage.name == "eval" and config["eval"]["engine"] == "openai" and not config["eval"]["serve"]:
        yield f"{config['eval']['endpoint']['base_url']} (the server)"


def _sources(data: dict[str, Any]) -> Iterator[str]:
    """The files of rows that an audit finds, or why there is none; the pictures are those that they name."""
    if data["synthetic"] is not None or not Path(data["root"] or "").is_dir():
        return
    root = DataRoot(Path(data["root"]))
    for split, (subset, task) in product(SPLITS, parts(data["subsets"], data["tasks"])):
        try:
            for source in find_files(root, [subset], [task], split):
                yield f"{source.path} ({(root.path / source.path).stat().st_size:,} bytes)"
        except UserError as error:
            yield f"nothing: {error}"
    yield "every picture that these rows name"


def _verl(stage: Stage) -> Iterator[str]:
    """The trainer's own command, which the stage starts. The set's size is known once it is prepared."""
    from recipes import verl_overrides

    config = OmegaConf.create(stage.config)
    prep = stage.inputs["prep"]
    rows = RunDir(prep.path).manifest["sets"]["rl"]["rows"] if prep.finished else config.grpo.batch_size
    start = str(stage.inputs["sft"].path.absolute() / "checkpoint")
    out = stage.path.absolute() / "verl"
    try:
        overrides = verl_overrides.overrides(config, prep.path.absolute(), start, out, rows)
    except UserError:
        return  # it stands among the findings
    environment = (
        f"{key}={shlex.quote(value)}" for key, value in verl_overrides.environment(config, out).items()
    )
    if not prep.finished:
        yield "  (below, the rows and the steps are those of one batch: the set is not prepared yet)"
    yield f"  starts   {' '.join(environment)} {shlex.join(verl_overrides.command(overrides))}"
