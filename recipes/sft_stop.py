"""Has transformers' trainer save and end at the next step when the job that carries it is told to stop."""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from recipes import stop


class SaveAndStop(TrainerCallback):
    """Looks for the wish at every step's end. All processes act on it at the same step, or none does."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the run directory."""
        self.folder = folder

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if self._anyone_asked(args.device):
            control.should_save = control.should_training_stop = True

    def _anyone_asked(self, device: torch.device) -> bool:
        asked = stop.requested(self.folder)
        if not torch.distributed.is_initialized():
            return asked
        seen = torch.tensor(int(asked), device=device)
        torch.distributed.all_reduce(seen, torch.distributed.ReduceOp.MAX)
        return bool(seen)
