"""The `reward` section of the configuration: the options of our reward, and which function pays in GRPO.

`reward.path` puts a function of the user's in the place of ours. It pays; what is right and what keeps the
format is still said by `rewards`, in the logs, the monitors and every evaluation.
"""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data_prep.errors import UserError
from rewards import RewardOptions
from rewards import __file__ as _rewards

FUNCTION = "compute_score"
OURS = Path(_rewards).resolve().parent / "cvs_reward.py"


def options(reward: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `rewards.compute_score` in the `reward` section."""
    return {key: value for key, value in reward.items() if key != "path"}


def function_file(reward: Mapping[str, Any]) -> Path:
    """The absolute path of the file whose `compute_score` pays."""
    return OURS if reward["path"] is None else Path(reward["path"]).expanduser().resolve()


def check(reward: Mapping[str, Any]) -> None:
    """See that the options can be taken and that `reward.path` defines a reward; it is not run.

    Raises:
        UserError: the message names the key.
    """
    try:
        RewardOptions(**options(reward))
    except (TypeError, ValueError) as error:
        raise UserError(f"reward.{error}.") from error
    if reward["path"] is None:
        return
    path = function_file(reward)
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"reward.path={reward['path']} cannot be read as Python: {error}.") from error
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if FUNCTION not in names:
        raise UserError(
            f"reward.path={reward['path']} defines no function {FUNCTION}: verl calls {FUNCTION}"
            "(data_source, solution_str, ground_truth, extra_info=None, **options)."
        )
