"""Log-probabilities of a packed batch in one pass.

Without flash-attention verl 0.9.1 loops over the rows of the logits to save memory. In a packed batch a row
is one token, so that a step builds and differentiates a graph of as many nodes as it has tokens. verl's own
plain version needs a second copy of the logits, which is small next to a machine's memory.
"""

from verl.utils import torch_functional

torch_functional.logprobs_from_logits_v2 = torch_functional.logprobs_from_logits_naive
