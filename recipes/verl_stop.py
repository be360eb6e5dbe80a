"""Has verl save at the next step when the job that carries it is told to stop.

verl 0.9.1 saves every `trainer.save_freq` steps and has no other way in. Its trainer runs in the process that
loads the data set class; the method that it calls after each step is continued here.
"""

import sys
from pathlib import Path
from typing import Any

from recipes import stop


def install() -> None:
    """Make the trainer of this process save when it is asked to; nothing where there is none."""
    module = sys.modules.get("verl.trainer.ppo.v1.trainer_sync")
    if module is None or hasattr(module.PPOTrainerSync, "saves_when_asked"):
        return
    stock = module.PPOTrainerSync.on_step_end

    def on_step_end(trainer: Any) -> None:
        stock(trainer)
        folder = Path(trainer.config.trainer.default_local_dir)
        run = folder.parent.parent  # RUN_DIR/verl/checkpoints
        if stop.requested(run) and not (folder / f"global_step_{trainer.global_steps}").exists():
            trainer._save_checkpoint()

    module.PPOTrainerSync.on_step_end = on_step_end
    module.PPOTrainerSync.saves_when_asked = True
