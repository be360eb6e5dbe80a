"""verl's checkpoints: which one to resume from, and how the last one becomes a transformers folder.

verl writes a checkpoint in several files and its pointer to the newest last, none of them atomically. After
a kill the newest folder may be cut short. Each of its files is a zip archive, whose directory stands at its
end, so a file that was cut is known without reading it.
"""

import re
import shutil
import zipfile
from pathlib import Path

from omegaconf import DictConfig

SHARDS = ("model", "optim", "extra_state")


def steps(folder: Path) -> dict[int, Path]:
    """Step to checkpoint, oldest first, whole or not."""
    found = {int(path.name.removeprefix("global_step_")): path for path in folder.glob("global_step_*")}
    return dict(sorted(found.items()))


def is_whole(checkpoint: Path) -> bool:
    """Whether every file of every rank is there and complete."""
    names = [path.name for path in (checkpoint / "actor").glob("model_world_size_*_rank_*.pt")]
    sizes = {int(match[1]) for name in names if (match := re.search(r"world_size_(\d+)", name))}
    if len(sizes) != 1:
        return False
    (size,) = sizes
    shards = [
        checkpoint / "actor" / f"{kind}_world_size_{size}_rank_{rank}.pt"
        for kind in SHARDS
        for rank in range(size)
    ]
    described = checkpoint / "actor" / "fsdp_config.json"
    return described.is_file() and all(zipfile.is_zipfile(path) for path in [*shards, checkpoint / "data.pt"])


def resume_point(folder: Path, keep: int) -> tuple[int, Path | None]:
    """The step of the newest whole checkpoint and its folder, or (0, None).

    Folders cut short are removed, and old ones beyond `keep`: verl forgets them on a restart.
    """
    whole = {}
    for step, path in steps(folder).items():
        if is_whole(path):
            whole[step] = path
        else:
            shutil.rmtree(path)
    for step in list(whole)[:-keep]:
        shutil.rmtree(whole.pop(step))
    if not whole:
        return 0, None
    newest = max(whole)
    return newest, whole[newest]


def merge(checkpoint: Path, target: Path, model: DictConfig) -> None:
    """Write the actor of `checkpoint` to the folder `target` in transformers format, with its processor.

    Adapters are merged into the weights. The result is loaded once before it takes its name.
    """
    from verl.model_merger.base_model_merger import ModelMergerConfig
    from verl.model_merger.fsdp_model_merger import FSDPModelMerger

    import recipes.torch_setup  # noqa: F401  before transformers
    from recipes.backbone import DTYPES, load_model, load_processor
    from recipes.checkpoints import saving

    actor = checkpoint / "actor"
    with saving(target) as folder:
        FSDPModelMerger(
            ModelMergerConfig(
                operation="merge",
                backend="fsdp",
                local_dir=str(actor),
                hf_model_config_path=str(actor / "huggingface"),
                target_dir=str(folder),
            )
        ).merge_and_save()
        adapter = folder / "lora_adapter"
        loaded = load_model(str(folder), model)
        if adapter.exists():
            from peft import PeftModel

            loaded = PeftModel.from_pretrained(loaded, str(adapter)).merge_and_unload()
            loaded.to(DTYPES[model.dtype]).save_pretrained(folder)
            shutil.rmtree(adapter)
            load_model(str(folder), model)
        load_processor(str(folder), model).save_pretrained(folder)
