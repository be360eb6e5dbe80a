"""verl's FSDP engine with a frozen vision tower (`model.freeze_vision`), loaded as its `model.external_lib`.

verl 0.9.1 takes `actor.freeze_vision_tower` and reads it nowhere. Here its engine for language models builds
the model, freezes the tower, and only then shards it and makes the optimizer, which is given no frozen
weight: FSDP2 shards weights one by one, so those that are trained and those that are not may share a layer.
"""

import os
from typing import Any

from torch import nn
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

import recipes.torch_setup
from recipes.backbone import freeze_vision, parameter_counts

if os.environ.get("VERL_PLATFORM") == "cpu":
    import recipes.verl_cpu.server  # noqa: F401  the CPU's own external library; verl takes one


class FrozenVisionEngine(FSDPEngineWithLMHead):
    """verl's engine, which trains the language model alone."""

    def _build_module(self) -> nn.Module:
        module = super()._build_module()
        freeze_vision(module)
        return module

    def _build_optimizer(self, module: nn.Module) -> Any:
        counts = parameter_counts(module)
        print(f"training {counts['trained']:,} of {counts['all']:,} weights; the vision tower is frozen")
        return super()._build_optimizer(_Trained(module))


class _Trained(nn.Module):
    """The trained weights of a module, for whoever asks it for its parameters."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.kept = nn.ParameterList(tensor for tensor in module.parameters() if tensor.requires_grad)


# The registry refuses a second engine of the same kind, so it is put in the first one's place.
for _devices in EngineRegistry._engines["language_model"].values():
    for _device, _engine in _devices.items():
        if _engine is FSDPEngineWithLMHead:
            _devices[_device] = FrozenVisionEngine
