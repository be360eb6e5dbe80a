"""Three-dimensional position ids of a batch in which every sequence has the same length.

Qwen's position ids have shape (4, length): text, time, height, width. Where all lengths are equal torch
takes the first axis for the ragged one; verl 0.9.1 then only relabels the ragged axis, and the next split
of the batch raises. Answers cut off at the length limit make such a batch likely.
"""

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils

_stock = tensordict_utils.maybe_fix_3d_position_ids


def maybe_fix_3d_position_ids(data: TensorDict) -> None:
    """Make the last axis of `data["position_ids"]` the ragged one, in place, as verl's own means to."""
    positions = data.get("position_ids", None)
    if isinstance(positions, torch.Tensor) and positions.is_nested and positions.dim() == 3:
        values, offsets = positions.values(), positions.offsets()
        if values.size(0) == int(offsets[-1]):  # the rows of all samples lie below each other
            samples = list(values.view(len(offsets) - 1, -1, values.size(1)).unbind(0))
            data["position_ids"] = tensordict_utils.nested_tensor_from_tensor_list(samples, ragged_idx=2)
    _stock(data)


tensordict_utils.maybe_fix_3d_position_ids = maybe_fix_3d_position_ids
