"""Rewards that pay the right answer and nothing else. Standard library only; the policy is in README.md."""

from rewards.answer import Parsed
from rewards.batch import parse_answer, render_answer, score_batch, summarise, validate_gold
from rewards.box import iou
from rewards.combine import combine
from rewards.cvs_reward import RewardOptions, compute_score
from rewards.number import mean_relative_accuracy
from rewards.response_format import RESPONSE_FORMATS, ResponseFormat, check_format
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
    "parse_answer",
    "render_answer",
    "score_batch",
    "shuffle_options",
    "summarise",
    "validate_gold",
]
