"""`dry_run=true`: the whole of what a command would do, with nothing started and nothing written."""

import shlex
from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from data_prep.errors import UserError
from launch.local import stage_command, stage_environment
from launch.pipeline import label, shown, stages_of
from launch.preflight import findings
from recipes.run_dir import RunDir
from recipes.stages import Stage

WRITES = {
    "prep": "images/, rows/{sft,rl,test}.jsonl, rl.parquet, quarantine.jsonl",
    "base": "checkpoint/",
    "sft": "checkpoint/, checkpoints/ (to resume from), metrics.jsonl",
    "grpo": "checkpoint/, probe.json, rollouts.jsonl, metrics.jsonl, verl.log, verl/ (to resume from)",
    "eval": "predictions.jsonl, scores.json",
}
ALWAYS = "config.yaml, inputs.json, command.txt, environment.txt, manifest.json"


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
        print(f"report\n  writes   {shown(stages[0].path.parent)}/report.html\n")
    found = findings(config, stages)
    print("# This machine\n")
    for finding in found:
        print(f"- {finding}")
    print("It could not start here." if found else "Nothing stands in the way.", "This was a dry run.")
    return 0


def _describe(stage: Stage) -> Iterator[str]:
    state = (
        "finished" if stage.finished else "to go on" if (stage.path / "config.yaml").exists() else "to run"
    )
    yield f"{label(stage)} ({state})"
    yield f"  folder   {shown(stage.path)}"
    yield from (f"  reads    {source}" for source in _reads(stage))
    yield f"  writes   {WRITES[stage.name]}; {ALWAYS}"
    environment = [f"{key}={shlex.quote(value)}" for key, value in stage_environment(stage).items()]
    yield f"  command  {' '.join([*environment, shlex.join(stage_command(stage))])}"
    if stage.name == "grpo":
        yield from _verl(stage)


def _reads(stage: Stage) -> Iterator[str]:
    config = stage.config
    if stage.name == "prep":
        made_here = config["data"]["synthetic"] is not None
        yield (
            "a synthetic release that it writes itself"
            if made_here
            else f"{config['data']['root']} (the release)"
        )
        if config["teacher"]["kind"] == "file":
            yield f"{config['teacher']['path']} (the teacher's reasoning)"
        if config["prompt"]["file"]:
            yield f"{config['prompt']['file']} (the instruction)"
    for name, source in stage.inputs.items():
        yield f"{shown(source.path)} ({name})"
    if "model" in config and stage.name != "base" and config["model"]["build"] is None:
        yield f"{config['model']['path']} (the base model)"
    if stage.name == "eval" and config["eval"]["checkpoint"] not in ("base", *stage.inputs):
        yield f"{config['eval']['checkpoint']} (the checkpoint)"


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
