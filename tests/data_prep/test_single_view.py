import pytest

from data_prep.errors import UserError
from data_prep.prompts import PromptSpec, build_messages, placeholder_prompt
from data_prep.rows import ImageRef, Row
from data_prep.single_view import check_single_view, hidden_view_fault


def row(task, *roles, hidden=()):
    return Row(
        id="cvsbench/cvusa/x.NA.q0", benchmark="cvsbench", subset="cvusa", task=task, category="roof",
        group="cvusa/x", images=tuple(ImageRef(f"{i}.png", role) for i, role in enumerate(roles)),
        question="?", options={"A": "a", "B": "b"}, answer="A",
        meta={"hidden_images": [{"path": path, "role": "?"} for path in hidden]},
    )  # fmt: skip


@pytest.mark.parametrize(
    "shown",
    [
        row("g2s", "street"),
        row("g2s", "panorama"),
        row("g2s", "street", "street", "street", "street"),
        row("g2s", "street", "miniature"),
        row("g2s", "strip", "depth"),
        row("s2g", "satellite", hidden=["elsewhere.jpg"]),
        row("s2g", "satellite", "map"),
        row("gs_grounding", "panorama", "satellite"),
        row("gs_view", "composite"),
    ],
)
def test_rows_that_keep_the_rule(shown):
    assert hidden_view_fault(shown) is None
    check_single_view(shown)


@pytest.mark.parametrize(
    "shown",
    [
        row("g2s", "satellite"),
        row("g2s", "street", "satellite"),
        row("g2s", "composite"),
        row("s2g", "street"),
        row("s2g", "satellite", "panorama"),
        row("s2g", "marked"),
        row("s2g", "satellite", hidden=["0.png"]),
    ],
)
def test_rows_that_break_it_reach_no_prompt(shown):
    prompt = PromptSpec("answer_only", "Answer.")
    for build in (build_messages, placeholder_prompt):
        with pytest.raises(UserError, match=r"row cvsbench/cvusa/x\.NA\.q0 breaks the single-view rule"):
            build(shown, prompt)
