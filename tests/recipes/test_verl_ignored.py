"""What `recipes.verl_ignored` says of verl, held against the installed package, so that an upgrade tells."""

import ast
import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import DictConfig

from data_prep.errors import UserError
from launch.compose import compose
from recipes import verl_overrides
from recipes.verl_ignored import IGNORED, RENAMED, ignored
from recipes.verl_schema import _known, compose_verl

SPEC = find_spec("verl")
VERL = Path(SPEC.origin).parent
SOURCES = {path.relative_to(VERL).as_posix(): path.read_text("utf-8") for path in VERL.rglob("*.py")}
# Engines that no run here takes.
ENGINES = re.compile(r"megatron|mcore|veomni|torchtitan|automodel|mindspeed|sglang|trtllm|experimental/vla")


def mentions(word: str) -> set[str]:
    pattern = re.compile(rf"\b{re.escape(word)}\b")
    return {name for name, text in SOURCES.items() if pattern.search(text) and not ENGINES.search(name)}


def last_part(key: str) -> str:
    return IGNORED[key].word or key.rsplit(".", 1)[-1]


def test_the_whole_package_is_searched():
    assert len(SOURCES) > 200
    assert mentions("freeze_vision_tower") == {"workers/config/actor.py"}


@pytest.mark.parametrize("key", [key for key, entry in IGNORED.items() if not entry.besides])
def test_nothing_reads_a_key_that_is_refused(key):
    known = IGNORED[key].mentioned
    unknown = {name for name in mentions(last_part(key)) if not name.startswith(tuple(known or ("-",)))}
    assert not unknown, f"{unknown} mention {last_part(key)}: is {key} read now?"
    stale = [name for name in known if not name.endswith("/") and name not in SOURCES]
    assert not stale


def test_fsdp_takes_three_values_of_the_lora_section():
    """The rest is Megatron's: its own freeze and dropout keys do nothing here."""
    read = {
        name
        for path, text in SOURCES.items()
        if not ENGINES.search(path)
        for name in re.findall(r"""lora(?:", \{\}\))?\.get\("(\w+)\"""", text)
    }
    assert read == set(IGNORED["actor_rollout_ref.model.lora"].besides)


def function(path: str, name: str) -> ast.FunctionDef:
    """A function of the package, which is not imported for it."""
    nodes = ast.walk(ast.parse(SOURCES[path]))
    return next(node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name)


def test_grpo_has_no_critic_and_no_discount():
    config = compose(["recipe=imagination_cot", "data.root=/d", "teacher.path=/t"])
    verl = compose_verl(verl_overrides.overrides(config, Path("/p"), "/s", Path("/o"), 640))
    names = {"AdvantageEstimator": SimpleNamespace(GAE="gae"), "warnings": warnings, "DictConfig": DictConfig}
    exec(ast.unparse(function("trainer/ppo/utils.py", "need_critic")), names)
    with pytest.warns(UserWarning, match="Disabled critic"):
        assert not names["need_critic"](verl)
    advantage = function("trainer/ppo/core_algos.py", "compute_grpo_outcome_advantage")
    arguments = {node.arg for node in ast.walk(advantage) if isinstance(node, ast.arg)}
    assert "token_level_rewards" in arguments
    assert not arguments & {"gamma", "lam"}


@pytest.mark.parametrize("key", IGNORED)
def test_what_is_refused_would_have_been_taken(key):
    """A key that verl does not know is refused as such; these are the ones it swallows."""
    assert _known(key, adding=True)


@pytest.mark.parametrize(
    ("key", "beside", "read"),
    [
        ("algorithm.kl_ctrl.kl_coef", set(), False),
        ("algorithm.kl_ctrl.kl_coef", {"algorithm.use_kl_in_reward"}, True),
        ("actor_rollout_ref.model.lora.merge", set(), True),
        ("actor_rollout_ref.model.lora.dropout", set(), False),
        ("critic.optim.lr", set(), False),
        ("criticism", set(), True),
    ],
)
def test_what_is_below_a_key_and_what_stands_beside_it(key, beside, read):
    assert (ignored(key, {key, *beside}) is None) is read


@pytest.mark.parametrize("key", [*IGNORED, *RENAMED])
def test_every_refusal_names_the_key_and_what_to_do(key):
    config = compose(["recipe=imagination_cot", "data.root=/d", "teacher.path=/t"])
    config.grpo.overrides = [f"{key}=1"]
    told = IGNORED[key].instead if key in IGNORED else RENAMED[key]
    with pytest.raises(UserError, match=re.escape(key)) as caught:
        verl_overrides.overrides(config, Path("/p"), "/s", Path("/o"), 640)
    assert told in str(caught.value)
