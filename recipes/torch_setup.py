"""Make torch ready for a stage; import this module before transformers, trl or verl.

PyPI's torchvision is built for the CUDA build of torch. Beside a CPU-only torch its compiled part
cannot load and the import fails on an operator that was never registered. The image processors use
only torchvision's pure-torch transforms, so declaring the operators' schemas is enough.
"""

import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch


def declare_torchvision_operators() -> None:
    """Declare what torchvision's import looks up, unless its compiled part has declared it."""
    if torch.version.cuda is not None or hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    declare_torchvision_operators.library = library  # dropping it would take the operators back


def restore_to_numbered_cpu() -> None:
    """Let `torch.load` take "cpu:0", as accelerate names the device of one of several CPU processes."""
    torch.serialization.register_package(
        30, lambda storage: None, lambda storage, place: storage if place.startswith("cpu:") else None
    )


declare_torchvision_operators()
restore_to_numbered_cpu()
