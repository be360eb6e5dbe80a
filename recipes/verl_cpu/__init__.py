"""verl's trainer on a machine without an accelerator: a platform, a rollout engine and an agent loop.

Loaded by verl itself: this module in every one of its processes (`VERL_USE_EXTERNAL_MODULES`), the rollout
where a model is built (`model.external_lib`), the agent loop where one is started
(`agent.agent_loop_manager_class`). All of it goes through the registries and keys that verl offers; where
verl 0.9.1 offers none, the one function that is replaced says why. Trainer, losses, data, reward workers
and checkpoints are verl's own.

    platform.py      what verl asks of a device, answered for the CPU
    position_ids.py  a batch in which every sequence has the same length
    log_probs.py     a packed batch without a Python loop over its tokens
    engine.py        transformers generation of a whole step as one batch, with a key-value cache
    prompts.py       verl's rows to token ids, image features and positions, once a prompt
    server.py        the Ray actor that holds the engine, and how weights reach it
    agent_loop.py    verl's agent loop manager: a step in one call
"""

from importlib.metadata import version

from recipes import VERL

if version("verl") != VERL:
    raise ImportError(
        f"recipes.verl_cpu is written for the internals of verl {VERL}, and {version('verl')} is "
        f"installed; pip install verl=={VERL}, or train on GPUs."
    )

import recipes.torch_setup
import recipes.verl_compat  # noqa: F401
from recipes.verl_cpu import platform, position_ids  # noqa: F401
