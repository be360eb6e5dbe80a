"""A copy of `metrics.jsonl` at Weights & Biases, for those who set `logger=wandb`.

The file stays the source of truth; the copy has the same names. One run directory is one W&B run,
whose id is kept in `wandb_id`, so a killed stage goes on in the same curves. Without a key the copy
is made offline, below the run directory, and the stage ends with the command that sends it.
"""

import netrc
import os
import shlex
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from omegaconf import OmegaConf

from data_prep.atomic import JsonlLog, write_text
from data_prep.errors import UserError
from recipes.run_dir import RunDir

LOGGERS = ("none", "wandb")
PROJECT = "spatial-recipes"


def metrics_log(run: RunDir) -> JsonlLog:
    """The log of `run`'s metrics, mirrored at W&B where the configuration asks for it.

    In a stage of several processes only the first one may open it.

    Raises:
        UserError: unknown logger; wandb is not installed, or refuses to start.
    """
    return _MirroredLog(run) if wanted(run) else run.metrics_log()


def wanted(run: RunDir) -> bool:
    """Whether the configuration asks for W&B.

    Raises:
        UserError: `logger` is neither none nor wandb.
    """
    logger = run.config.logger
    if logger not in LOGGERS:
        raise UserError(f"logger={logger} is unknown; take one of {', '.join(LOGGERS)}.")
    return logger == "wandb"


def environment(run: RunDir) -> dict[str, str]:
    """Variables that make any process that logs to W&B by itself (verl) continue `run`'s own W&B run."""
    stored = run.path / "wandb_id"
    if not stored.exists():
        write_text(stored, uuid.uuid4().hex[:8] + "\n")
    return {
        "WANDB_PROJECT": os.environ.get("WANDB_PROJECT", PROJECT),
        "WANDB_NAME": f"{run.path.parent.name}/{run.path.name}",
        "WANDB_RUN_ID": stored.read_text().strip(),
        "WANDB_RESUME": "allow",
        "WANDB_MODE": os.environ.get("WANDB_MODE") or ("online" if _has_key() else "offline"),
        "WANDB_DIR": str(run.path),
    }


def sync_command(run: RunDir) -> str:
    """What sends the copies that `run`'s attempts made offline; they become one run of W&B."""
    return f"wandb sync {shlex.quote(str(run.path / 'wandb'))}/offline-run-*"


def _has_key() -> bool:
    """Whether W&B would find a key: in the environment, or in the file that `wandb login` writes."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    stored = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    try:
        return stored.exists() and host in netrc.netrc(stored).hosts
    except (netrc.NetrcParseError, OSError) as error:
        raise UserError(f"{stored} cannot be read ({error}); mend it, or set WANDB_API_KEY.") from error


class _MirroredLog(JsonlLog):
    """The metrics file and its W&B run; a record stands in the file before it is sent."""

    def __init__(self, run: RunDir) -> None:
        try:
            import wandb
        except ImportError as error:
            raise UserError("logger=wandb needs wandb: pip install 'spatial-recipes[wandb]'.") from error
        settings = environment(run)
        try:
            self._mirror: Any = wandb.init(
                project=settings["WANDB_PROJECT"],
                name=settings["WANDB_NAME"],
                id=settings["WANDB_RUN_ID"],
                resume=settings["WANDB_RESUME"],
                mode=settings["WANDB_MODE"],
                dir=settings["WANDB_DIR"],
                config=OmegaConf.to_container(run.config),
            )
        except wandb.Error as error:
            raise UserError(
                f"Weights & Biases did not start ({error}); "
                "set WANDB_MODE=offline to send the copy later, or logger=none."
            ) from error
        # A resumed stage repeats the steps since its last checkpoint; W&B's own counter would refuse them.
        self._mirror.define_metric("*", step_metric="step")
        self._later = sync_command(run) if settings["WANDB_MODE"] == "offline" else None
        super().__init__(run.path / "metrics.jsonl")

    def append(self, *records: dict[str, Any]) -> None:
        super().append(*records)
        for record in records:
            self._mirror.log(record)

    def close(self) -> None:
        super().close()
        self._finish()

    def _finish(self, **status: int) -> None:
        self._mirror.finish(**status)
        if self._later:
            print(f"W&B: send the copy with: {self._later}", flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().close()
        self._finish(exit_code=0 if kind is None else 1)
