"""Take a finished model out of its run directory: to a folder, or to the Hugging Face hub. Needs no torch.

What leaves is what transformers loads (weights as safetensors, configuration, processor, generation
configuration) and a model card with the results that are known by now.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from data_prep.errors import UserError
from data_prep.secrets import mask, remember
from recipes import checkpoints
from recipes.model_card import card
from recipes.run_dir import RunDir
from recipes.trust import remote_code

HUB = "hub:"
KEPT = ("*.json", "*.safetensors", "*.txt", "*.jinja", "*.model")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
NEEDED = ("config.json", "generation_config.json", "tokenizer_config.json")


def source_of(run: RunDir) -> Path:
    """The model's folder of a stage's run directory, once it is known to be whole.

    Raises:
        UserError: the stage is not finished, its weights are damaged or no safetensors, or a part is missing.
    """
    folder = run.path / "checkpoint"
    if not run.finished:
        raise UserError(f"{run.path} is not finished, and export trains nothing: run that stage first.")
    if checkpoints.sealed(folder) and (wrong := checkpoints.fault(folder)):
        raise UserError(
            f"{folder} is damaged ({wrong}): take {run.path}/manifest.json away and run it again."
        )
    if not any(folder.glob(checkpoints.WEIGHTS)):
        pickled = next((path.name for kind in PICKLES for path in folder.glob(kind)), "no weights at all")
        raise UserError(f"{folder} has no safetensors ({pickled}): only these leave, as they run no code.")
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if not list(folder.glob("*processor_config.json")):
        missing.append("processor_config.json")
    if missing:
        raise UserError(f"{folder} lacks {', '.join(missing)}, without which it is no whole model.")
    if code := remote_code(str(folder)):
        raise UserError(
            f"{folder} names Python of its own in {', '.join(code)}, which would not leave with it: export "
            "copies no code."
        )
    return folder


def to_folder(run: RunDir, evaluations: list[RunDir], target: Path) -> Path:
    """Copy the model to the folder `target`, whole or not at all.

    Raises:
        UserError: as `source_of`; or `target` is there already.
    """
    source = source_of(run)
    if target.exists():
        raise UserError(f"{target} is there already: give another to=, or take it away.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with checkpoints.saving(target) as temporary:
        _fill(temporary, source, run, evaluations, shutil.copy2)
    return target


def to_hub(run: RunDir, evaluations: list[RunDir], name: str, token_env: str, private: bool) -> str:
    """Upload the model to the hub's repository `name` (OWNER/NAME) and return its address.

    The token is read from the environment variable `token_env`, sent, and kept nowhere.

    Raises:
        UserError: as `source_of`; there is no token; or the hub refuses.
    """
    source = source_of(run)
    remember(token_env)
    token = os.environ.get(token_env, "").strip()
    if not token:
        raise UserError(
            f"the environment variable {token_env} holds no token for the hub: set it, or name another with "
            "export.token_env=."
        )
    from httpx import HTTPError  # huggingface_hub's own client
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    try:
        with _staged(source, run, evaluations) as folder:
            api = HfApi(token=token)
            address = api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=name,
                folder_path=folder,
                commit_message=f"Upload {run.path.name} of {run.config.recipe_name}",
            )
    except HFValidationError as error:
        raise UserError(f"to={HUB}{name} is no name at the hub: {mask(str(error))}") from None
    except (HTTPError, OSError) as error:
        said = " ".join(mask(str(error)).split())[:300]
        raise UserError(
            f"the hub did not take {name} with the token in {token_env}: {said or type(error).__name__}"
        ) from None
    return str(address)


@contextlib.contextmanager
def _staged(source: Path, run: RunDir, evaluations: list[RunDir]) -> Iterator[Path]:
    """What leaves, in a folder beside the model; weights are linked where the disk can."""
    folder = run.path / ".export"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        _fill(folder, source, run, evaluations, _link)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _fill(
    folder: Path,
    source: Path,
    run: RunDir,
    evaluations: list[RunDir],
    place: Callable[[Path, Path], object],
) -> None:
    for kind in KEPT:
        for path in sorted(source.glob(kind)):
            if path.name != checkpoints.MARKER:
                place(path, folder / path.name)
    (folder / "README.md").write_text(card(run, run.manifest, evaluations), encoding="utf-8")


def evaluations_of(run: RunDir) -> list[RunDir]:
    """The finished evaluations of the model that stage directory `run` leaves, in the folder beside it."""
    found = []
    for path in sorted(run.path.parent.glob("eval-*")):
        other = RunDir(path)
        if other.finished and (path / "inputs.json").exists():
            named = Path(str(other.config.eval.checkpoint)).name
            stored = json.loads((path / "inputs.json").read_text(encoding="utf-8"))
            # By name, which holds the hash: the folder of all runs may have moved.
            if Path(stored.get(named, "")).name == run.path.name:
                found.append(other)
    return found
