"""The models that stages start from: present, whole, in a fitting type, with one chat template throughout."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import DictConfig

from data_prep.errors import UserError
from recipes import checkpoints
from recipes.model_folder import TYPES, ModelFolder
from recipes.run_dir import RunDir
from recipes.stages import CHECKPOINT_STAGES, ENDPOINT, ONE_CHECKPOINT, Stage

TRUE = ("1", "on", "yes", "true")
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def findings(config: DictConfig, stages: Sequence[Stage], ahead: set[str]) -> Iterator[str]:
    """What is wrong with the model of the configuration, and with checkpoints that the stages start from."""
    path = config.model.path
    if _loads_base(config, ahead):
        if path is None:
            yield "model.path is null: give a model's hub id or folder, or model=tiny_qwen3_vl."
        elif is_folder(path) and not Path(path).is_dir():
            yield f"model.path={path} does not exist: give the folder of a checkpoint, or a hub id."
        elif not Path(path).is_dir() and _offline(config) and snapshot(path) is None:
            yield (
                f"model.path={path} is not in this machine's cache, and {_offline(config)} forbids to fetch "
                f"it: run `hf download {path}` where there is a network, or give the folder of a copy."
            )
    for what, folder in _folders(config, stages, ahead):
        if checkpoints.sealed(folder) and (damage := checkpoints.fault(folder)):
            yield f"{what} is damaged: {damage}.{_way_out(what)}"
            continue
        try:
            yield from _faults(config, ahead, what, ModelFolder(folder))
        except UserError as error:
            yield f"{what} cannot be loaded: {error}{_way_out(what)}"
    yield from _templates(config, stages, ahead)


def notes(config: DictConfig, stages: Sequence[Stage], ahead: set[str]) -> Iterator[str]:
    """What is worth knowing of the models and stops nothing."""
    path = config.model.path
    from_hub = _loads_base(config, ahead) and path and not is_folder(path) and not Path(path).is_dir()
    if from_hub and not _offline(config) and snapshot(path) is None:
        size = 2 * config.model.parameters / 1e9
        yield f"{path} is not in this machine's cache: about {size:.0f} GB are fetched from the hub first."
    for what, folder in _folders(config, stages, ahead):
        try:
            held = set(ModelFolder(folder).dtypes) & set(TYPES.values())
        except UserError:
            continue  # it stands among the findings
        if held and held != {config.model.dtype}:
            yield (
                f"{what} holds weights in {' and '.join(sorted(held))}, and they are loaded in "
                f"model.dtype={config.model.dtype}."
            )


def is_folder(path: str) -> bool:
    """Whether a model's path is meant as a folder, as against a hub id."""
    return str(path).startswith(("/", ".", "~"))


def snapshot(repository: str) -> Path | None:
    """The folder of a hub model in the cache of this machine, or None."""
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(repository, "config.json")
    except ValueError:  # no possible name of a repository
        return None
    return Path(found).parent if isinstance(found, str) else None


def _base_folder(config: DictConfig) -> Path | None:
    """The folder of `model.path`, its own or that of the cache; None where the model is not here."""
    path = config.model.path
    if path is None or Path(path).is_dir():
        return None if path is None else Path(path)
    return None if is_folder(path) else snapshot(path)


def tokenizer_folder(config: DictConfig, stages: Sequence[Stage]) -> Path | None:
    """A folder with the tokenizer that the stages use, where one is at hand."""
    folders = [stage.path / "checkpoint" for stage in stages if stage.name in CHECKPOINT_STAGES]
    if config.model.build is None and (own := _base_folder(config)):
        folders = [own, *folders]
    return next((folder for folder in folders if (folder / "tokenizer.json").is_file()), None)


def _loads_base(config: DictConfig, ahead: set[str]) -> bool:
    return config.model.build is None and bool(ahead & {"sft", "grpo", *ONE_CHECKPOINT})


def _offline(config: DictConfig) -> str | None:
    """The variable that forbids to ask the hub, if one does; what jobs may ask is the cluster's to say."""
    if config.cluster.name != "local":
        return None
    return next((name for name in OFFLINE if os.environ.get(name, "").lower() in TRUE), None)


def _folders(config: DictConfig, stages: Sequence[Stage], ahead: set[str]) -> Iterator[tuple[str, Path]]:
    """Every model that a stage ahead starts from and that stands here, with what it is called."""
    if "sft" in ahead and config.model.build is None and (own := _base_folder(config)):
        yield f"model.path={config.model.path}", own
    users = {"base": {"sft", *ONE_CHECKPOINT}, "sft": {"grpo", *ONE_CHECKPOINT}, "grpo": {*ONE_CHECKPOINT}}
    for stage in stages:
        # One that counts its steps has left a model.
        if stage.finished and ahead & users.get(stage.name, set()) and "steps" in RunDir(stage.path).manifest:
            yield f"the {stage.name} checkpoint {stage.path}/checkpoint", stage.path / "checkpoint"
    checkpoint = config.eval.checkpoint
    if ahead & {*ONE_CHECKPOINT} and checkpoint not in (*CHECKPOINT_STAGES, ENDPOINT):
        yield f"eval.checkpoint={checkpoint}", Path(checkpoint)


def _faults(config: DictConfig, ahead: set[str], what: str, model: ModelFolder) -> Iterator[str]:
    kind = str(model.config.get("model_type", ""))
    if kind and config.model.family not in kind:
        yield (
            f"{what} is a {kind}, and model.family={config.model.family}: pictures would be cut into other "
            "patches; choose the model file that fits it."
        )
    strange = sorted(set(model.dtypes) - set(TYPES.values()))
    if strange or model.config.get("quantization_config"):
        how = " and ".join(strange) or model.config["quantization_config"].get("quant_method", "quantized")
        yield f"{what} holds quantized weights ({how}), which are not trained here: give one in bfloat16."
    text = model.config.get("text_config") or model.config
    heads, parallel = text.get("num_attention_heads"), config.grpo.tensor_parallel
    if "grpo" in ahead and heads and heads % parallel:
        yield f"{what} has {heads} attention heads, no multiple of grpo.tensor_parallel={parallel}: lower it."
    most = text.get("max_position_embeddings")
    wanted = config.model.max_prompt_tokens + config.model.max_response_tokens
    if most and wanted > most:
        yield (
            f"{what} reads {most} tokens at most, and model.max_prompt_tokens + model.max_response_tokens = "
            f"{wanted}: lower one of them."
        )
    if (wrong := model.head_fault()) is not None:
        yield f"{what}: {wrong}; save the model anew from the program that trained it."
    if model.tensors and model.chat_template is None:
        yield f"{what} has no chat template: copy chat_template.jinja of the model that it was made from."


def _templates(config: DictConfig, stages: Sequence[Stage], ahead: set[str]) -> Iterator[str]:
    """GRPO and evaluation must wrap a question as SFT did, or the format is lost at step 0."""
    sft = next((stage for stage in stages if stage.name == "sft" and stage.finished), None)
    trained = RunDir(sft.path).manifest.get("chat_template") if sft else None
    if sft is None or trained is None:
        return
    later = [(stage, stage.path / "checkpoint") for stage in stages if stage.name in ("sft", "grpo")]
    for stage, folder in later:
        if not stage.finished or not ahead & {"grpo", *ONE_CHECKPOINT}:
            continue
        try:
            now = ModelFolder(folder).template_hash
        except UserError:
            continue  # it stands among the findings
        if now is not None and now != trained:
            yield (
                f"the chat template of {folder} ({now}) is not the one that SFT used ({trained}): copy "
                f"chat_template.jinja back from the base model, or train again."
            )


def _way_out(what: str) -> str:
    if not what.startswith("the "):  # it was named by a key
        return " Give another folder, or copy it whole."
    return " Take that run's manifest.json away and give the same command again: the stage makes it anew."
