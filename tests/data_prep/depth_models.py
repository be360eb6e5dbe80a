"""A randomly initialised Depth Anything of a few thousand weights, saved as a hub's folder is."""

from pathlib import Path

import recipes.torch_setup  # noqa: F401  before transformers


def save_depth_model(folder: Path, seed: int = 0, kind: str = "relative") -> Path:
    """A model of that kind (`depth_estimation_type`) with its image processor."""
    import torch
    from transformers import (
        DepthAnythingConfig,
        DepthAnythingForDepthEstimation,
        Dinov2Config,
        DPTImageProcessor,
    )

    torch.manual_seed(seed)
    backbone = Dinov2Config(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, image_size=56, patch_size=14,
        out_indices=[1, 2, 3, 4], reshape_hidden_states=False, apply_layernorm=True,
    )  # fmt: skip
    config = DepthAnythingConfig(
        backbone_config=backbone, reassemble_hidden_size=16, neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8, head_hidden_size=8, depth_estimation_type=kind, max_depth=80,
        initializer_range=0.4,
    )  # fmt: skip
    DepthAnythingForDepthEstimation(config).save_pretrained(folder)
    DPTImageProcessor(
        size={"height": 56, "width": 56}, keep_aspect_ratio=True, ensure_multiple_of=14, resample=3,
        image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225],
    ).save_pretrained(folder)  # fmt: skip
    return folder
