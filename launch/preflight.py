"""What would stop a run, found before anything starts: one sentence each, with the way out."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from data_prep.errors import UserError
from data_prep.monosr.sources import FOLDER
from data_prep.views.settings import paths
from launch.compose import is_unset, leaf_keys
from launch.local import used_gpus
from launch.machine import GIB, existing_parent, free_disk, gpus, version
from launch.values import batch_faults, faults
from recipes import VERL, reward_settings, serve
from recipes.stages import ENDPOINT, ONE_CHECKPOINT, SECTIONS, Stage

MODEL_STAGES = {"sft", "grpo", *ONE_CHECKPOINT}
UNSET = {
    "data.root": "the folder that holds cvusa/ and fov/ of the downloaded CVSBench release",
    "teacher.path": 'a JSON-lines file of {"id", "reasoning"}',
    "teacher.base_url": "the endpoint's address, up to and with /v1",
    "teacher.model": "the name under which the endpoint serves the model",
}
OMNI3D = f"the folder that holds {FOLDER}/ with Omni3D's annotations, and the sources' pictures"


def findings(config: DictConfig, stages: Sequence[Stage]) -> list[str]:
    """What stands in the way of `stages` on this machine; empty when they can start.

    `config` is the composed configuration. Of stages that are finished only the directory is looked at.
    """
    ahead = [stage for stage in stages if not stage.finished]
    names = {stage.name for stage in ahead}
    sections = (
        {"logger", "cluster", *(section for name in names for section in SECTIONS[name])} if names else set()
    )
    if names == {"generate"} and config.teacher.kind != "openai":
        sections -= {"teacher"}  # `_generation` says what is missing, if it is wanted at all
    found = [*_unset(config, sections), *faults(config, sections), *batch_faults(config, names)]
    if names & {"prep", "audit"}:
        found += _release(config)
    if "prep" in names:
        found += _views(config.data)
    if "prep" in names:
        found += _teacher(config)
    if "generate" in names:
        found += [*_generation(config), *(_teacher(config) if config.teacher.kind == "openai" else [])]
    if "prompt" in sections and config.prompt.file is not None and not Path(config.prompt.file).is_file():
        found.append(
            f"prompt.file={config.prompt.file} does not exist: give the path of a text file, or null."
        )
    if "prep" in names and config.teacher.kind == "answer" and config.prompt.format != "answer_only":
        found.append(f"teacher=answer teaches no {config.prompt.format}: add prompt=answer_only.")
    if "sft" in names and config.teacher.kind == "none":
        found.append(
            "teacher=none leaves the SFT rows without reasoning: take teacher=file teacher.path=FILE."
        )
    if "reward" in sections:
        found += _reward(config)
    if names & MODEL_STAGES:
        found += _model(config)
    # A server elsewhere has the devices for its model.
    if names & MODEL_STAGES - {"eval"} or ("eval" in names and _answers_here(config)):
        found += _devices(config)
    if names & {*ONE_CHECKPOINT}:
        found += _engine(config, names)
    found += [*_software(config, names), *_directories(stages), *_disk(config, ahead)]
    return found


def check(config: DictConfig, stages: Sequence[Stage]) -> None:
    """Return when nothing stands in the way.

    Raises:
        UserError: all findings, one a line.
    """
    found = findings(config, stages)
    if found:
        lead = "" if len(found) == 1 else f"{len(found)} things stand in the way:\n  - "
        raise UserError(lead + "\n  - ".join(found))


def _unset(config: DictConfig, sections: set[str]) -> Iterator[str]:
    for key in leaf_keys(config):
        if key.split(".")[0] in sections and is_unset(config, key):
            what = (
                OMNI3D
                if (key, config.data.benchmark) == ("data.root", "monosr")
                else UNSET.get(key, "a value")
            )
            yield f"{key} is not set: give {key}={what}; or add scale=tiny, which needs no data."


def _release(config: DictConfig) -> Iterator[str]:
    data = config.data
    if data.synthetic is not None or OmegaConf.is_missing(data, "root"):
        return
    if data.root is None:
        yield "data.root is null: give the folder of the release, or data=cvsbench_synthetic."
        return
    root = Path(data.root)
    if data.benchmark == "monosr":
        if not (root / FOLDER).is_dir():
            yield (
                f"data.root={root} has no folder {FOLDER}/: give {OMNI3D}; or add scale=tiny, which needs no "
                "data."
            )
        return
    if not root.is_dir():
        yield f"data.root={root} does not exist or is no folder: give the folder that holds cvusa/ and fov/."
        return
    missing = [subset for subset in data.subsets if not (root / subset).is_dir()]
    if missing:
        near = [p for p in (root.parent, *sorted(p for p in root.iterdir() if p.is_dir()))]
        better = [p for p in near if all((p / subset).is_dir() for subset in data.subsets)]
        way_out = (
            f"did you mean data.root={better[0]}?"
            if better
            else "give the folder that holds cvusa/ and fov/, or name what there is with data.subsets=[...]."
        )
        lacking = " and ".join(f"{subset}/" for subset in missing)
        yield f"data.root={root} is no CVSBench release, it lacks {lacking}: {way_out}"


def _teacher(config: DictConfig) -> Iterator[str]:
    teacher = config.teacher
    if config.data.benchmark == "monosr" and teacher.kind in ("openai", "oracle"):
        yield (
            f"teacher={teacher.kind} does not teach MonoSR: take teacher=answer, or teacher=file "
            "teacher.path=FILE."
        )
        return
    if teacher.kind == "openai":
        yield from _endpoint(teacher)
    if teacher.kind == "oracle" and config.data.synthetic is None:
        yield "teacher=oracle knows only the synthetic release: take teacher=file teacher.path=FILE."
    if (
        teacher.kind == "file"
        and not OmegaConf.is_missing(teacher, "path")
        and not Path(teacher.path or "").is_file()
    ):
        yield f"teacher.path={teacher.path} does not exist: give {UNSET['teacher.path']}."


def _endpoint(teacher: DictConfig) -> Iterator[str]:
    name = teacher.api_key_env
    if name is not None and not os.environ.get(name):
        yield (
            f"the environment variable {name} holds no key for the teacher: set it, name another with "
            "teacher.api_key_env=, or set that to null for an endpoint that wants none."
        )
    if teacher.max_cost is not None and None in (teacher.price_in, teacher.price_out):
        yield f"teacher.max_cost={teacher.max_cost} wants teacher.price_in= and teacher.price_out=."
    if teacher.prompt_file is not None and not Path(teacher.prompt_file).is_file():
        yield f"teacher.prompt_file={teacher.prompt_file} does not exist: give a text file, or null."


def _views(data: DictConfig) -> Iterator[str]:
    if data.benchmark == "monosr":
        if data.wording.model is not None:
            yield from _asked(data.wording, "data.wording", "the endpoint")
        return
    for file in paths(data.only_rows):
        if not Path(file).is_file():
            yield f"data.only_rows: {file} does not exist: give a file of row ids, or null."
    if data.views == "none":
        return
    folders = paths(data.views_root)
    for folder in folders:
        if not Path(folder).is_dir():
            yield f"data.views_root={folder} is no folder: give one of view files (docs/views.md), or null."
    if data.views == "map" and not folders:
        yield "data.views=map comes from files alone: give data.views_root=DIR (docs/views.md: layouts)."
    if data.views == "miniature" and data.views_miniature.api is not None:
        yield from _miniatures(data.views_miniature)


def _asked(model: DictConfig, section: str, what: str) -> Iterator[str]:
    """What `section` lacks of key and prices for a model behind an endpoint."""
    name = model.api_key_env
    if name is not None and not os.environ.get(name):
        yield (
            f"the environment variable {name} holds no key for {what}: set it, name another with "
            f"{section}.api_key_env=, or set that to null for an endpoint that wants none."
        )
    if model.max_cost is not None and None in (model.price_in, model.price_out):
        yield f"{section}.max_cost={model.max_cost} wants {section}.price_in= and {section}.price_out=."


def _miniatures(miniature: DictConfig) -> Iterator[str]:
    section = "data.views_miniature"
    if miniature.model is None:
        yield f"{section}.model is null: give the name under which the endpoint serves the image model."
    yield from _asked(miniature, section, "the image endpoint")
    if miniature.prompts is not None and not Path(miniature.prompts).is_dir():
        yield f"{section}.prompts={miniature.prompts} is no folder: give one, or null."
    if miniature.api == "gemini" and version("google-genai") is None:
        install = "pip install 'spatial-recipes[gemini]'"
        yield f"{section}.api=gemini needs google-genai: {install}, or take {section}.api=edit."


def _generation(config: DictConfig) -> Iterator[str]:
    generation = config.generation
    if generation.pairs is None:
        yield "generation.pairs is null: give the folder of your image pairs, which holds cvusa/ or fov/."
    elif not Path(generation.pairs).is_dir():
        yield f"generation.pairs={generation.pairs} is no folder: give the one that holds cvusa/ or fov/."
    else:
        for subset in generation.subsets:
            if not Path(generation.pairs, subset).is_dir():
                rest = ",".join(other for other in generation.subsets if other != subset)
                yield (
                    f"generation.pairs={generation.pairs} lacks {subset}/: leave it out with "
                    f"generation.subsets=[{rest}]."
                )
    if set(generation.tasks) - {"gs_view"} and config.teacher.kind != "openai":
        yield (
            f"launch generate asks a model, and teacher={config.teacher.kind} is none: take teacher=openai, "
            "gemini or vllm; generation.tasks=[gs_view] asks none."
        )
    if generation.prompts is not None and not Path(generation.prompts).is_dir():
        yield f"generation.prompts={generation.prompts} is no folder: give one, or null."


def _answers_here(config: DictConfig) -> bool:
    return config.eval.engine == "transformers" or config.eval.serve


def _engine(config: DictConfig, names: set[str]) -> Iterator[str]:
    evaluation = config.eval
    endpoint = evaluation.endpoint
    if (evaluation.serve or "serve" in names) and (missing := serve.lacks()):
        yield missing
    if names & {"serve", "parity"} and evaluation.checkpoint == ENDPOINT:
        yield "eval.checkpoint=endpoint has no weights here: give base, sft, grpo or the folder of one."
    if "eval" in names and evaluation.engine != "openai":
        if evaluation.serve:
            yield "eval.serve=true starts a server that nothing would ask: add eval.engine=openai."
        if evaluation.checkpoint == ENDPOINT:
            yield "eval.checkpoint=endpoint is the model of a server: add eval.engine=openai."
    if not names & {"eval", "parity"} or ("parity" not in names and evaluation.engine != "openai"):
        return
    if evaluation.serve:
        if endpoint.model is not None:
            yield f"eval.endpoint.model={endpoint.model} is of another server: drop it, or eval.serve=true."
        return
    if evaluation.checkpoint == ENDPOINT and endpoint.model is None:
        yield "eval.checkpoint=endpoint wants the name of the model: eval.endpoint.model=."
    if not str(endpoint.base_url).startswith(("http://", "https://")):
        yield f"eval.endpoint.base_url={endpoint.base_url} is no address: it begins with http:// or https://."
    if endpoint.api_key_env is not None and not os.environ.get(endpoint.api_key_env):
        yield (
            f"the environment variable {endpoint.api_key_env} holds no key for the server: set it, name "
            "another with eval.endpoint.api_key_env=, or set that to null for a server that wants none."
        )


def _model(config: DictConfig) -> Iterator[str]:
    path = config.model.path
    if config.model.build is not None:
        return
    if path is None:
        yield "model.path is null: give a model's hub id or folder, or model=tiny_qwen3_vl."
    elif str(path).startswith(("/", ".", "~")) and not Path(path).is_dir():
        yield f"model.path={path} does not exist: give the folder of a checkpoint, or a hub id."


def _reward(config: DictConfig) -> Iterator[str]:
    try:
        reward_settings.check(config.reward)
    except UserError as error:
        yield str(error)


def _devices(config: DictConfig) -> Iterator[str]:
    wanted = used_gpus(OmegaConf.to_container(config))  # type: ignore[arg-type]
    have = len(gpus())
    if wanted and not have:
        yield (
            f"model.device=cuda, but this machine shows no NVIDIA GPU ({config.model.name} wants {wanted}): "
            "run there, or add scale=tiny for the same recipe on a CPU."
        )
    elif wanted > have:
        yield f"cluster.gpus={wanted}, but this machine shows {have}: set cluster.gpus={have}."


def _software(config: DictConfig, names: set[str]) -> Iterator[str]:
    cuda = config.model.device == "cuda"
    if "grpo" in names and version("verl") != VERL:
        have = version("verl")
        yield (
            f"GRPO needs verl {VERL}, and {f'{have} is' if have else 'none is'} installed: "
            f"pip install {'verl[vllm]' if cuda else 'verl'}=={VERL}."
        )
    elif "grpo" in names:
        yield from _verl(config)
    if "grpo" in names and cuda and gpus() and version("vllm") is None:
        yield "GRPO on GPUs needs vllm: pip install 'spatial-recipes[gpu]'."
    sharded = config.sft.shard in ("zero2", "zero3") and cuda and config.cluster.gpus > 1
    if "sft" in names and sharded and gpus() and version("deepspeed") is None:
        install = "pip install 'spatial-recipes[gpu]'"
        yield f"sft.shard={config.sft.shard} needs deepspeed: {install}, or set sft.shard=fsdp."
    if config.logger == "wandb" and version("wandb") is None:
        yield "logger=wandb needs wandb: pip install 'spatial-recipes[wandb]', or set logger=none."


def _verl(config: DictConfig) -> Iterator[str]:
    from recipes import verl_overrides

    try:
        verl_overrides.overrides(config, Path("prep"), "checkpoint", Path("out"), config.grpo.batch_size)
    except UserError as error:
        yield str(error)


def _directories(stages: Sequence[Stage]) -> Iterator[str]:
    for stage in stages:
        try:
            stage.check()
        except UserError as error:
            yield str(error)
    for parent in sorted({existing_parent(stage.path) for stage in stages if not stage.finished}):
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            yield f"{parent} cannot be written to: set runs_dir= to a folder of yours."


def disk_need(config: DictConfig, stage: Stage) -> float:
    """GiB that a stage writes at most, roughly.

    A checkpoint to resume from holds weights of 2 (SFT) or 4 bytes (GRPO) and AdamW's state of 8 bytes a
    trained parameter; one more than is kept stands on the disk while it is written.
    """
    weights = config.model.parameters
    if stage.name == "generate":
        pairs = Path(config.generation.pairs or "")
        # Every picture is copied, and drawn upon up to three times.
        return 4 * sum(p.stat().st_size for p in pairs.rglob("*") if p.is_file()) / GIB
    if stage.name in ("prep", "audit"):
        if config.data.benchmark == "monosr":
            return _monosr_need(config.data)
        if config.data.synthetic is not None:
            return (config.data.synthetic.train_groups + config.data.synthetic.test_groups) * 50e3 / GIB
        if stage.name == "audit":
            return 50e6 / GIB
        folders = [Path(config.data.root or "", subset) for subset in config.data.subsets]
        pictures = (p.stat().st_size for folder in folders for p in folder.rglob("*") if p.is_file())
        return sum(pictures) / GIB
    if stage.name == "sft":
        trained = 0 if config.sft.lora.rank else weights
        return (3 * (2 * weights + 8 * trained) + 2 * weights) / GIB
    if stage.name == "grpo":
        trained = 0 if config.grpo.lora.rank else weights
        return ((config.grpo.keep_checkpoints + 1) * (4 * weights + 8 * trained) + 2 * weights) / GIB
    return (4 * weights if stage.name == "base" else 50e6) / GIB


def _monosr_need(data: DictConfig) -> float:
    """GiB of MonoSR's prep: 100 kB a synthetic picture; of a release 0.3 MB for 26 kB of annotations.

    That is a picture's copy, the records of its objects and its questions.
    """
    if data.synthetic is not None:
        return (data.synthetic.train_pictures + data.synthetic.test_pictures) * 100e3 / GIB
    files = Path(data.root or "", FOLDER).glob("*.json")
    return (
        sum(p.stat().st_size for p in files if p.stem.partition("_")[0] in data.sources) / 26e3 * 0.3e6 / GIB
    )


def _disk(config: DictConfig, stages: Sequence[Stage]) -> Iterator[str]:
    """A stage that has begun is left out: much of what it writes stands on the disk already."""
    root_known = config.data.synthetic is not None or not is_unset(config, "data.root")
    ahead = [s for s in stages if not (s.path / "config.yaml").exists() and (root_known or s.name != "prep")]
    disks: dict[int, list[Stage]] = {}
    for stage in ahead:
        disks.setdefault(existing_parent(stage.path).stat().st_dev, []).append(stage)
    for together in disks.values():
        need = sum(disk_need(config, stage) for stage in together)
        place = existing_parent(together[0].path)
        free = free_disk(place)
        if free < need:
            names = ", ".join(dict.fromkeys(stage.name for stage in together))
            yield (
                f"{place} has {free:.1f} GiB free, and {names} may write {need:.1f} GiB: "
                "free some, set runs_dir= to a larger disk, or lower grpo.keep_checkpoints."
            )
