"""verl's checkpoints: which one to resume from, which to keep, and how one becomes a transformers folder.

verl writes a checkpoint in several files and its pointer to the newest last, none of them atomically. After
a kill the newest folder may be cut short. Each of its files is a zip archive, whose directory stands at its
end, so a file that was cut is known without reading it. Once a step is logged its checkpoint is sealed
(`recipes.checkpoints`), and from then on every file is held against its size and hash. The pointer is not
looked at.

verl 0.9.1 reads its own checkpoints with torch.load(weights_only=False), its merger too: a checkpoint is as
trusted as a program, and only those of one's own run directory are ever resumed from.
"""

import json
import re
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from recipes import checkpoints

SHARDS = ("model", "optim", "extra_state")
ACCURACY = "validation_accuracy"  # in metrics.jsonl, of a step whose checkpoint was validated


def steps(folder: Path) -> dict[int, Path]:
    """Step to checkpoint, oldest first, whole or not."""
    found = {int(path.name.removeprefix("global_step_")): path for path in folder.glob("global_step_*")}
    return dict(sorted(found.items()))


def is_whole(checkpoint: Path) -> bool:
    """Whether every file of every rank is there and complete."""
    return fault(checkpoint) is None


def fault(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint, in words; None where it is whole."""
    actor = checkpoint / "actor"
    names = [path.name for path in actor.glob("model_world_size_*_rank_*.pt")]
    sizes = {int(match[1]) for name in names if (match := re.search(r"world_size_(\d+)", name))}
    if len(sizes) != 1:
        return "it has no weights" if not sizes else "it has weights of several numbers of processes"
    (size,) = sizes
    shards = [actor / f"{kind}_world_size_{size}_rank_{rank}.pt" for kind in SHARDS for rank in range(size)]
    for path in [*shards, checkpoint / "data.pt"]:
        if not path.is_file():
            return f"{path.name} is missing"
        if not zipfile.is_zipfile(path):
            return f"{path.name} was cut short"
    try:
        json.loads((actor / "fsdp_config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "fsdp_config.json is missing"
    except ValueError:
        return "fsdp_config.json was cut short"
    return checkpoints.fault(checkpoint) if checkpoints.sealed(checkpoint) else None


def best(records: Iterable[Mapping[str, Any]], folder: Path) -> int | None:
    """The step of the best validation in `records` (of metrics.jsonl) whose checkpoint is in `folder`."""
    return checkpoints.best_step(records, ACCURACY, highest=True, among=steps(folder))


def tidy(folder: Path, done: int, keep: int, records: Iterable[Mapping[str, Any]]) -> None:
    """While verl runs and step `done` is logged: seal that step's checkpoint, and take old ones away."""
    found = {step: path for step, path in steps(folder).items() if step <= done}
    if done in found and not checkpoints.sealed(found[done]):
        checkpoints.seal(found[done])
    for step in checkpoints.superfluous(found, keep, best(records, folder)):
        shutil.rmtree(found[step])


def resume_point(
    folder: Path, keep: int, records: Iterable[Mapping[str, Any]] = ()
) -> tuple[int, Path | None]:
    """The step of the newest whole checkpoint and its folder, or (0, None).

    Damaged folders are told by name and removed, and so are old ones beyond `keep` but the best by `records`.
    """
    whole, damaged = checkpoints.sort_out(steps(folder), fault, "GRPO")
    for path in damaged:
        shutil.rmtree(path)
    for step in checkpoints.superfluous(whole, keep, best(records, folder)):
        shutil.rmtree(whole.pop(step))
    if not whole:
        return 0, None
    newest = max(whole)
    return newest, whole[newest]


def merge(checkpoint: Path, target: Path, model: DictConfig, card: str | None = None) -> None:
    """Write the actor of `checkpoint` to the folder `target` in transformers format, with its processor.

    Adapters are merged into the weights. The result is loaded once before it takes its name.
    """
    from verl.model_merger.base_model_merger import ModelMergerConfig
    from verl.model_merger.fsdp_model_merger import FSDPModelMerger

    import recipes.torch_setup  # noqa: F401  before transformers
    from recipes.backbone import DTYPES, load_model, load_processor
    from recipes.trust import trusts_code

    actor = checkpoint / "actor"
    with checkpoints.saving(target) as folder:
        FSDPModelMerger(
            ModelMergerConfig(
                operation="merge",
                backend="fsdp",
                local_dir=str(actor),
                hf_model_config_path=str(actor / "huggingface"),
                target_dir=str(folder),
                trust_remote_code=trusts_code(model),
            )
        ).merge_and_save()
        adapter = folder / "lora_adapter"
        loaded = load_model(str(folder), model)
        if adapter.exists():
            from peft import PeftModel

            loaded = PeftModel.from_pretrained(loaded, str(adapter)).merge_and_unload(safe_merge=True)
            loaded.to(DTYPES[model.dtype]).save_pretrained(folder)
            shutil.rmtree(adapter)
            load_model(str(folder), model)
        loaded.generation_config.save_pretrained(folder)
        load_processor(str(folder), model).save_pretrained(folder)
        checkpoints.finish_model(folder, card)
