"""A configuration of the paper's size in which nothing stands in the way, to break in one place at a time.

The release, the prepared rows, the model and the checkpoints are small files made here; packages, GPUs and
disk are pretended.
"""

import copy
import json
import struct
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from data_prep.atomic import write_json, write_jsonl
from data_prep.rows import ImageRef, Row
from launch import machine
from launch.compose import compose
from launch.pipeline import stages_of
from launch.preflight import findings, notes
from recipes.model_folder import ModelFolder
from recipes.stages import Stage

TEMPLATE = (
    "{%- for m in messages %}<|im_start|> {{ m.role }}\n{%- for part in m.content %}"
    "{%- if part.type == 'image' %} <|vision_start|> <|image_pad|> <|vision_end|>{%- else %} {{ part.text }}"
    "{%- endif %}{%- endfor %} <|im_end|>\n{%- endfor %}<|im_start|> assistant\n"
)
CONFIG = {
    "model_type": "qwen3_vl",
    "tie_word_embeddings": True,
    "text_config": {"num_attention_heads": 32, "max_position_embeddings": 4096},
}
PLACES = {
    "data.root": "release", "teacher.path": "reasoning.jsonl", "model.path": "model", "runs_dir": "runs",
}  # fmt: skip
HERE = tuple(f"{key}=" for key in PLACES)
SIZES = {"sft": 70, "rl": 130, "test": 6}  # rows
PACKAGES = {"verl": "0.9.1", "vllm": "0.24.0", "deepspeed": "0.18", "wandb": "0.20"}
EMBEDDING, HEAD = "model.language_model.embed_tokens.weight", "lm_head.weight"


def write_weights(path: Path, dtype: str = "BF16", **tensors: bytes) -> None:
    """A safetensors file with vectors of these bytes, by name ("__" stands for a dot)."""
    header, end = {}, 0
    for name, content in tensors.items():
        offsets = [end, end + len(content)]
        values = len(content) // {"BF16": 2, "F32": 4, "U8": 1}[dtype]
        header[name.replace("__", ".")] = {"dtype": dtype, "shape": [values], "data_offsets": offsets}
        end = offsets[1]
    words = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(words)) + words + b"".join(tensors.values()))


def write_model(folder: Path, **changes: object) -> Path:
    """A model's folder as far as it is looked at before a start; `changes` are keys of its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", {**CONFIG, **changes})
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_weights(folder / "model.safetensors", **{EMBEDDING: bytes(range(256))})
    return folder


@cache
def composed(*words: str) -> DictConfig:
    """Composing takes most of a case's time, and many cases share a configuration but for their folders."""
    return compose([*words, *(f"{key}=/elsewhere" for key in PLACES)])


class Healthy:
    """The world of one test below `root`. `places` are the keys that say where it is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for subset in ("cvusa", "fov"):
            (root / "release" / subset).mkdir(parents=True)
        (root / "release" / "Omni3D").mkdir()
        (root / "reasoning.jsonl").touch()
        self.model = write_model(root / "model")
        self.recipe = "imagination_cot"
        self.places = {key: str(root / name) for key, name in PLACES.items()}

    @property
    def given(self) -> list[str]:
        """The words of a command line in this world."""
        return [f"recipe={self.recipe}", *(f"{key}={place}" for key, place in self.places.items())]

    def planned(self, command: str, *more: str) -> tuple[DictConfig, list[Stage]]:
        config = composed(f"recipe={self.recipe}", *(word for word in more if not word.startswith(HERE)))
        config = copy.deepcopy(config)
        set_here = dict(word.split("=", 1) for word in more if word.startswith(HERE))
        for key, place in {**self.places, **set_here}.items():
            OmegaConf.update(config, key, place)
        return config, stages_of(command, config)

    def findings(self, command: str, *more: str) -> list[str]:
        return findings(*self.planned(command, *more))

    def notes(self, command: str, *more: str) -> list[str]:
        return notes(*self.planned(command, *more))

    @property
    def prep(self) -> Path:
        return self.planned("prep")[1][-1].path

    def checkpoint(self, name: str) -> Path:
        return self.planned(name)[1][-1].path / "checkpoint"

    def prepare(self, words: int = 40, size: tuple[int, int] = (640, 480), pictures: int = 1) -> None:
        """Finish prep: sets of `SIZES`, reasoning of `words` words, `pictures` of `size` pixels a row."""
        run = self.planned("prep")[1][-1].open()
        names = [f"{number:02d}/{number}.png" for number in range(pictures)]
        for name in names:
            (run.path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(run.path / "images" / name)
        for half, count in SIZES.items():
            rows = (
                Row(
                    id=f"cvsbench/fov/g2s/{half}.{number}",
                    benchmark="cvsbench",
                    subset="fov",
                    task="g2s",
                    category="facade",
                    group=f"fov/{half}{number // 2}",
                    images=tuple(ImageRef(name, "street", "", *size) for name in names),
                    question="Is the north facade of the building to be seen from above?",
                    options={"A": "Yes", "B": "No"},
                    answer="A",
                    reasoning=" ".join(["word"] * words) if half == "sft" else None,
                )
                for number in range(count)
            )
            write_jsonl(run.path / f"rows/{half}.jsonl", (row.to_json() for row in rows))
        (run.path / "rl.parquet").touch()
        files = dict.fromkeys([*(f"rows/{name}.jsonl" for name in SIZES), "rl.parquet"], "")
        run.finish({"sets": {name: {"rows": count} for name, count in SIZES.items()}, "files": files})

    def finish(self, name: str) -> Path:
        """Finish the stage `name` with a checkpoint as it would leave one, which is returned."""
        stage = self.planned(name)[1][-1]
        run = stage.open()
        folder = write_model(stage.path / "checkpoint")
        run.finish({"steps": 4, "chat_template": ModelFolder(folder).template_hash})
        return folder


def pretend(monkeypatch, gpus: int = 8, **packages: str | None) -> None:
    """So many GPUs, these packages beside `PACKAGES` (None: not installed), room enough."""
    monkeypatch.setattr("launch.machine.gpus", lambda: [machine.Gpu("A100", 80.0)] * gpus)
    monkeypatch.setattr("launch.machine.version", {**PACKAGES, **packages}.get)
    monkeypatch.setattr("launch.machine.free_disk", lambda _: 1e6)
    monkeypatch.setattr("recipes.serve.lacks", lambda: None)
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
