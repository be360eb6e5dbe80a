"""One score from accuracy and format (CVSBench, appendix 0.B.6): ``(1 - lambda) accuracy + lambda format``."""

FORMAT_WEIGHT = 0.1
"""lambda in the paper."""


def combine(
    accuracy: float, format: float, format_weight: float = FORMAT_WEIGHT, gate_format: bool = False
) -> float:
    """The reward in [0, 1].

    With `gate_format` (beyond the paper, off by default) format pays in proportion to accuracy, so that a group in
    which every answer is wrong has equal rewards and no advantages.
    """
    paid = format * accuracy if gate_format else format
    return min(max((1.0 - format_weight) * accuracy + format_weight * paid, 0.0), 1.0)
