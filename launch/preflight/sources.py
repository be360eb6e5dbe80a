"""What prep and `launch generate` start from: the release, auxiliary views, image pairs, and who is asked."""

import os
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from data_prep.monosr.sources import FOLDER
from data_prep.views.settings import paths
from launch import machine
from launch.compose import is_unset, leaf_keys

UNSET = {
    "data.root": "the folder that holds cvusa/ and fov/ of the downloaded CVSBench release",
    "teacher.path": 'a JSON-lines file of {"id", "reasoning"}',
    "teacher.base_url": "the endpoint's address, up to and with /v1",
    "teacher.model": "the name under which the endpoint serves the model",
}

OMNI3D = f"the folder that holds {FOLDER}/ with Omni3D's annotations, and the sources' pictures"


def unset(config: DictConfig, sections: set[str]) -> Iterator[str]:
    for key in leaf_keys(config):
        if key.split(".")[0] in sections and is_unset(config, key):
            of_monosr = (key, config.data.benchmark) == ("data.root", "monosr")
            what = OMNI3D if of_monosr else UNSET.get(key, "a value")
            yield f"{key} is not set: give {key}={what}; or add scale=tiny, which needs no data."


def release(config: DictConfig) -> Iterator[str]:
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


def rl_rows(config: DictConfig) -> Iterator[str]:
    if config.data.benchmark == "monosr" and not config.data.rl_half:
        yield (
            f"recipe={config.recipe_name} keeps no questions for GRPO: take recipe=monosr_grpo, or launch sft"
            " and launch eval checkpoint=sft."
        )


def teacher(config: DictConfig) -> Iterator[str]:
    teacher = config.teacher
    if teacher.kind == "answer" and config.prompt.format != "answer_only":
        yield f"teacher=answer teaches no {config.prompt.format}: add prompt=answer_only."
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


def views(data: DictConfig) -> Iterator[str]:
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
    if miniature.api == "gemini" and machine.version("google-genai") is None:
        install = "pip install 'spatial-recipes[gemini]'"
        yield f"{section}.api=gemini needs google-genai: {install}, or take {section}.api=edit."


def generation(config: DictConfig) -> Iterator[str]:
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
