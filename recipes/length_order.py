"""The order of SFT's rows: by chance, and by length within an update, so that micro-batches pad little."""

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler


class LengthOrder(Sampler[int]):
    """Row numbers in an order drawn anew every epoch, the rows of each update from long to short.

    Every update has the rows that it has in accelerate's order (`SeedableRandomSampler`), and the same
    gradient: the loss is a mean over the update's tokens, however its rows are dealt to micro-batches. So a
    run may go on with other micro-batches. Rows of about one length meet in a micro-batch, and in those that
    several processes work on at the same time.

    Args:
        lengths: of every row, in any unit.
        update: rows of an update, over all processes and accumulated micro-batches.
        seed: of the run; the same in every process and after a resume.
    """

    def __init__(self, lengths: Sequence[float], update: int, seed: int) -> None:
        self.lengths, self.update, self.seed, self.epoch = lengths, update, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(len(self.lengths), generator=generator).tolist()
        for start in range(0, len(order), self.update):
            yield from sorted(order[start : start + self.update], key=lambda row: -self.lengths[row])
