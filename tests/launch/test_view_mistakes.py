"""What is wrong with the keys of auxiliary views and of the viewer is told before anything starts."""

import pytest

from launch.cli import main

TINY = ("prep", "recipe=imagination_cot", "scale=tiny")
MINIATURE = ("data.views=miniature", "data.views_miniature.api=edit")
KEY, MODEL = "data.views_miniature.api_key_env=null", "data.views_miniature.model=m"
MISTAKES = {
    ("data.views=deep",): "data.views=deep is unknown: did you mean depth?",
    ("data.view=depth",): "did you mean data.views?",
    ("data.views=map",): "data.views=map comes from files alone: give data.views_root=DIR",
    ("data.views=depth", "data.views_root=nowhere"): "data.views_root=nowhere is no folder",
    ("data.views=depth", "data.views_depth.micro_batch_size=0"): "must be at least 1",
    ("data.views=depth", "data.views_depth.device=gpu"): "data.views_depth.device=gpu is unknown",
    ("data.only_rows=nowhere.txt",): "data.only_rows: nowhere.txt does not exist",
    ("data.only_rows=[pyproject.toml,nowhere.txt]",): "data.only_rows: nowhere.txt does not exist",
    (*MINIATURE, KEY): "data.views_miniature.model is null",
    (*MINIATURE, MODEL, "data.views_miniature.api_key_env=NO_KEY"): "NO_KEY holds no key",
    (*MINIATURE, KEY, MODEL, "data.views_miniature.max_cost=1"): "price_in= and",
    (*MINIATURE, KEY, MODEL, "data.views_miniature.prompts=no"): "prompts=no is no folder",
    (*MINIATURE, "data.views_miniature.api=openai"): "data.views_miniature.api=openai is unknown",
}  # fmt: skip


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_a_mistake_is_one_sentence_with_the_way_out(words, capsys, tmp_path):
    assert main([*TINY, f"runs_dir={tmp_path}/runs", *words]) == 2
    assert MISTAKES[words] in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("report", "report.picture_side=0"), "report.picture_side=0 is too small"),
        (("report", "report.port=-1"), "report.port=-1 is too small"),
        (("report", "serve=true"), "there is no finished evaluation to look at"),
        (("pipeline", "serve=true"), "use launch report serve=true"),
    ],
)
def test_mistakes_of_the_viewer(words, told, capsys, tmp_path):
    command, option = words
    assert main([command, *TINY[1:], f"runs_dir={tmp_path}/runs", option]) == 2
    assert told in capsys.readouterr().err


def test_idle_settings_of_views_are_not_asked_for(capsys, tmp_path):
    """Without miniatures nobody needs a key, a model or a folder for them."""
    words = ("data.views_miniature.api=edit", "data.views_root=nowhere", "dry_run=true")
    assert main([*TINY, f"runs_dir={tmp_path}/runs", *words]) == 0
    assert "Nothing stands in the way." in capsys.readouterr().out


def test_a_dry_run_names_where_views_are_read(capsys, tmp_path):
    words = ("data.views=depth", f"data.views_root={tmp_path}", "dry_run=true")
    assert main([*TINY, f"runs_dir={tmp_path}/runs", *words]) == 0
    assert f"reads    {tmp_path} (files of depth views)" in capsys.readouterr().out
