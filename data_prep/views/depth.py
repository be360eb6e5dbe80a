"""Depth maps by a monocular model (Depth Anything V2 in CVSBench 4.4) through transformers: near is bright.

A map has its picture's size and 8 bits. Each is scaled by itself: the farthest point of the picture is 0, the
nearest 255. A relative model gives inverse depth, which is taken as it is; a metric one gives metres, whose
inverse is taken.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig
from PIL import Image

from data_prep.atomic import digest, replacing, sha256_file
from data_prep.errors import UserError

NORMALISATION = "inverse depth, minimum 0 to maximum 255"  # a part of every map's key
NEAREST = 0.1  # metres; below that a metric model's inverse would outshine the picture


def eight_bits(values: np.ndarray, metric: bool) -> np.ndarray:
    """The map (height, width), uint8, of a model's output of that shape; 0 where that is the same all over.

    Args:
        metric: whether the values are metres (far is large) or inverse depth (near is large).

    Raises:
        ValueError: a value is not finite.
    """
    inverse = values.astype(np.float64)
    if not np.isfinite(inverse).all():
        raise ValueError("the depth model gave values that are not finite")
    if metric:
        inverse = 1.0 / np.maximum(inverse, NEAREST)
    low, high = inverse.min(), inverse.max()
    if high == low:
        return np.zeros(inverse.shape, np.uint8)
    return np.round((inverse - low) / (high - low) * 255).astype(np.uint8)


class DepthMaps:
    """The maps in a cache folder, and the model that makes those which are not there.

    A map is named by a hash of its picture's content, of the model (a hub id, or the content of a folder) and
    of the normalisation, so a changed model never meets another's maps. The model is loaded when needed.

    Args:
        config: `model`, `device`, `micro_batch_size` of `data.views_depth`.
    """

    def __init__(self, config: DictConfig, cache: Path) -> None:
        self._config, self._cache = config, cache
        self._identity = model_identity(config.model)

    def path(self, sha256: str) -> Path:
        """Where the map of the picture with this content is or will be."""
        key = digest([self._identity, NORMALISATION, sha256])
        return self._cache / key[:2] / f"{key}.png"

    def make(self, pictures: Mapping[str, Path], on_progress: Callable[[int], None]) -> dict[str, Path]:
        """The maps of `pictures` (content hash to file, clean); those in the cache are taken from there.

        Raises:
            UserError: the model cannot be loaded, or a batch does not fit into the device's memory.
        """
        found = {sha: self.path(sha) for sha in pictures}
        absent = [sha for sha, path in found.items() if not path.exists()]
        done = len(found) - len(absent)
        on_progress(done)
        if not absent:
            return found
        estimator = _Estimator(self._config)
        by_size: dict[tuple[int, int], list[str]] = defaultdict(
            list
        )  # a batch is of one size, so never padded
        for sha in absent:
            with Image.open(pictures[sha]) as picture:
                by_size[picture.size].append(sha)
        size = self._config.micro_batch_size
        for together in by_size.values():
            for start in range(0, len(together), size):
                batch = together[start : start + size]
                for sha, values in zip(batch, estimator.run([pictures[s] for s in batch]), strict=True):
                    with replacing(found[sha]) as temporary:
                        Image.fromarray(eight_bits(values, estimator.metric)).save(temporary, "PNG")
                done += len(batch)
                on_progress(done)
        return found


def model_identity(model: str) -> str:
    """The hub id, or for a folder a hash of its configuration and weights."""
    folder = Path(model)
    if not folder.is_dir():
        return model
    files = sorted(p for p in folder.iterdir() if p.suffix in (".json", ".safetensors", ".bin"))
    return digest({path.name: sha256_file(path) for path in files})


class _Estimator:
    """The loaded model."""

    def __init__(self, config: DictConfig) -> None:
        import torch
        from transformers import AutoImageProcessor, AutoModelForDepthEstimation

        wanted = config.device
        self._device = ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted
        self._torch = torch
        try:
            self._processor: Any = AutoImageProcessor.from_pretrained(config.model, trust_remote_code=False)
            model = AutoModelForDepthEstimation.from_pretrained(config.model, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise UserError(
                f"data.views_depth.model={config.model} cannot be loaded"
                f" ({' '.join(str(error).split())[:200]}). "
                "Give a hub id or the folder of a depth model, or null to take depth maps from files alone."
            ) from error
        self._model = model.to(self._device).eval()
        self.metric = getattr(model.config, "depth_estimation_type", "relative") == "metric"

    def run(self, paths: list[Path]) -> list[np.ndarray]:
        """The model's output for pictures of one size, scaled back to that size, (height, width) float32."""
        pictures = []
        for path in paths:
            with Image.open(path) as picture:
                pictures.append(picture.convert("RGB"))
        sizes = [(picture.height, picture.width) for picture in pictures]
        try:
            with self._torch.inference_mode():
                inputs = self._processor(images=pictures, return_tensors="pt").to(self._device)
                output = self._model(**inputs)
                scaled = self._processor.post_process_depth_estimation(output, target_sizes=sizes)
        except ValueError as error:  # a processor that cannot scale so slim a picture
            raise UserError(f"the depth model takes no picture of {sizes[0]} pixels: {error}") from error
        except self._torch.OutOfMemoryError as error:
            raise UserError(
                f"{len(paths)} pictures at once do not fit into the memory of {self._device}: give a smaller "
                "data.views_depth.micro_batch_size (the maps made so far are kept)."
            ) from error
        return [one["predicted_depth"].float().cpu().numpy() for one in scaled]
