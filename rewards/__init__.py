"""Rewards that pay the right answer and nothing else. The policy is written in README.md."""

from rewards.answer import Parsed
from rewards.batch import score_batch, summarise
from rewards.box import iou
from rewards.combine import combine
from rewards.cvs_reward import compute_score
from rewards.number import mean_relative_accuracy
from rewards.options import RewardOptions
from rewards.reading import parse_answer, render_answer, validate_gold
from rewards.response_format import RESPONSE_FORMATS, ResponseFormat, check_format, names_option
from rewards.shuffle import shuffle_options

__all__ = [
    "RESPONSE_FORMATS",
    "Parsed",
    "ResponseFormat",
    "RewardOptions",
    "check_format",
    "combine",
    "compute_score",
    "iou",
    "mean_relative_accuracy",
    "names_option",
    "parse_answer",
    "render_answer",
    "score_batch",
    "shuffle_options",
    "summarise",
    "validate_gold",
]
