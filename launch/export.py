"""`launch export`: a finished model to a folder or to the hub, with its card."""

from pathlib import Path

from omegaconf import DictConfig

from data_prep.errors import UserError
from launch.pipeline import shown
from recipes.export import HUB, evaluations_of, source_of, to_folder, to_hub
from recipes.run_dir import RunDir
from recipes.stages import CHECKPOINT_STAGES, plan


def run(config: DictConfig) -> int:
    """Export the model of `eval.checkpoint` to `to`; with `dry_run` only say what would leave.

    Raises:
        UserError: no place to go to, no such stage, or as `recipes.export` does.
    """
    name, target = str(config.eval.checkpoint), config.to
    if target is None:
        raise UserError("export wants a place: give to=FOLDER, or to=hub:OWNER/NAME with a token.")
    if name not in CHECKPOINT_STAGES:
        raise UserError(f"export takes the model of a stage: checkpoint=sft, grpo or base, not {name}.")
    if name == "base" and config.model.build is None:
        raise UserError(f"the base model {config.model.path} is not made here; there is nothing to export.")
    path = plan(config, name).path if config.run_dir is None else Path(config.run_dir)
    if not (path / "config.yaml").exists():
        raise UserError(
            f"there is no {name} in {shown(path)}: run launch {name} with the same options first."
        )
    stage = RunDir(path)
    evaluations = evaluations_of(stage)
    source = source_of(stage)
    results = ", ".join(evaluation.path.name for evaluation in evaluations) or "no finished evaluation"
    print(f"model    {shown(source)}\nresults  {results}")
    if config.dry_run:
        print(f"It would go to {target}. This was a dry run.")
    elif str(target).startswith(HUB):
        repository = str(target).removeprefix(HUB)
        address = to_hub(stage, evaluations, repository, config.export.token_env, config.export.private)
        print(f"export   {address}")
    else:
        print(f"export   {shown(to_folder(stage, evaluations, Path(target)))}")
    return 0
