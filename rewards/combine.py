"""One score: ``(1 - lambda) accuracy + lambda format`` (CVSBench, appendix 0.B.6)."""

FORMAT_WEIGHT = 0.1
"""lambda in the paper."""


def combine(
    accuracy: float, format_score: float, format_weight: float = FORMAT_WEIGHT, gate_format: bool = False
) -> float:
    """The score in [0, 1]; all arguments are in [0, 1].

    With `gate_format` (beyond the paper, off by default) format pays in proportion to accuracy: a group in
    which every answer is wrong then has equal scores, and no advantages from format alone.
    """
    paid = format_score * accuracy if gate_format else format_score
    return min((1 - format_weight) * accuracy + format_weight * paid, 1.0)
