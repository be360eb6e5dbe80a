import dataclasses
import math
import random
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from evaluation_runs import finish_eval, make_eval, make_pipeline, make_prep
from PIL import Image

from data_prep.atomic import read_jsonl, write_jsonl
from data_prep.errors import UserError
from data_prep.rows import ImageRef
from recipes.report import summary, write_report
from recipes.run_dir import RunDir

SKILLS = {"base": 0.3, "sft": 0.6, "grpo": 0.9, "grpo-blank": 0.35}
ATTACK = """</textarea></title></style></script><script>alert(1)</script><img src=x onerror=alert(2)>
<a href="javascript:alert(3)">x</a>" onload="alert(4)' onclick='alert(5) <svg onload=alert(6)>
{{ 7*7 }} &lt;b&gt;"""
TAGS = {
    "article", "b", "body", "circle", "div", "figcaption", "figure", "g", "h1", "h2", "h3", "head", "header",
    "html", "i", "img", "li", "line", "main", "meta", "p", "path", "pre", "rect", "small", "span", "style",
    "svg", "table", "tbody", "td", "text", "th", "thead", "title", "tr", "ul",
}  # fmt: skip


class Page(HTMLParser):
    """The tags, attributes and text of a page, as a browser would read them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.words, self.open, self.style = set(), [], [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


def trained(folder, records):
    run = RunDir.open(folder, {"logger": "none"}, {})
    write_jsonl(run.path / "metrics.jsonl", records)
    return run.path


@pytest.fixture
def pipeline(tmp_path):
    return make_pipeline(tmp_path, make_prep(tmp_path / "prep", groups=20), SKILLS)


def test_summary_compares_each_stage_with_the_one_before(pipeline):
    records = summary(pipeline)
    assert [r["key"] for r in records] == list(SKILLS)
    assert [r["previous"] for r in records] == [None, "base", "SFT", "SFT+RL"]
    base, _, grpo, blank = records
    assert base["difference"] is None
    assert base["n"] == 60
    for now, before in zip(records[1:], records, strict=False):
        assert now["low"] <= now["accuracy"] <= now["high"]
        assert now["difference"] == pytest.approx(now["accuracy"] - before["accuracy"])
        assert now["difference_low"] <= now["difference"] <= now["difference_high"]
    assert blank["difference_high"] < 0
    assert grpo["p"] < 0.05


def test_missing_stages_are_left_out_of_the_comparison(pipeline):
    found = summary({key: pipeline[key] for key in ("grpo", "base")})
    assert [(r["key"], r["previous"]) for r in found] == [("base", None), ("grpo", "base")]
    assert summary({}) == []


def test_report_shows_every_part(tmp_path, pipeline):
    sft = trained(tmp_path / "sft", [{"step": i, "loss": 1 / (i + 1), "lr": 1e-3} for i in range(30)])
    records = [{"step": i, "reward": i / 30, "kl": 0.01, "accuracy": 0.5, "format": 1.0} for i in range(30)]
    grpo = trained(tmp_path / "grpo", records)
    out = write_report(pipeline, grpo, sft, tmp_path / "out" / "report.html", "Imagination, tiny")
    page = Page(out.read_text(encoding="utf-8"))
    assert page.open == []
    assert page.tags == TAGS
    for expected in (
        "Imagination, tiny",
        "60 unseen questions about 40 places",
        "SFT+RL, grey pictures",
        "CVUSA, S2G: location",
        "FOV, G2S: facade",
        "SFT: loss of an answer's tokens",
        "GRPO: reward",
        "No values of entropy a token, nats were recorded.",
        "Does it look at the pictures?",
        "SFT was wrong, SFT+RL is right",
        "reward 1.00: accuracy 1, format 1",
        "reward 0.10: accuracy 0, format 1",
        "eval-grpo-blank",
        f"{100 * summary(pipeline)[2]['accuracy']:.1f}\u00a0%",
    ):
        assert " ".join(expected.split()) in page.text
    assert (
        sum(value.startswith("data:image/png;base64,") for name, value in page.attributes if name == "src")
        >= 12
    )


def test_nothing_in_the_page_runs_or_is_fetched(tmp_path):
    def attack(row):
        picture = dataclasses.replace(row.images[0], role=ATTACK)
        return dataclasses.replace(
            row,
            id=f"{row.id}{ATTACK}",
            subset=f"{row.subset}{ATTACK}",
            task=ATTACK,
            category=ATTACK,
            images=(picture,),
            question=f"{ATTACK} asked",
            options={letter: f"{text}{ATTACK}" for letter, text in row.options.items()},
        )

    prep = make_prep(tmp_path / "prep", groups=8, change=attack)
    wording = ATTACK.replace("{{ 7*7 }}", "") + "<answer> {} </answer>"
    evals = make_pipeline(tmp_path, prep, SKILLS, wording=wording)
    scores = (
        (evals["grpo"] / "scores.json")
        .read_text()
        .replace("as tested", "as <script>alert(8)</script> tested")
    )
    (evals["grpo"] / "scores.json").write_text(scores)
    sft = trained(tmp_path / "sft", [{"step": 1, "loss": ATTACK}, {"step": ATTACK, "lr": 1}])
    html = write_report(evals, None, sft, tmp_path / "report.html", ATTACK).read_text(encoding="utf-8")
    page = Page(html)
    assert page.tags <= TAGS
    assert page.open == []
    names = {name for name, _ in page.attributes}
    assert not any(name.startswith("on") for name in names)
    assert not names & {"href", "action", "formaction", "style", "srcdoc", "xlink:href"}
    assert all(value.startswith("data:image/") for name, value in page.attributes if name == "src")
    assert "url(" not in page.style
    assert "default-src 'none'" in html
    shown = " ".join(ATTACK.split())
    assert page.text.count(shown) > 60  # everything is there to be read, as text
    assert (" ".join((ATTACK + " asked").split())) in page.text


def test_a_whole_reasoning_is_shown_up_to_a_limit(tmp_path):
    prep = make_prep(tmp_path / "prep", groups=2)
    run = make_eval(tmp_path / "eval", prep, "base")
    finish_eval(run, 1.0, wording="x" * 50_000 + "<answer> {} </answer>")
    html = write_report({"base": run.path}, None, None, tmp_path / "report.html", "t").read_text()
    assert "x" * 4000 in html
    assert "x" * 4001 not in html


def test_one_evaluation_alone_makes_a_report(tmp_path, pipeline):
    page = Page(
        write_report({"base": pipeline["base"]}, None, None, tmp_path / "r.html", "base only").read_text()
    )
    assert "What base learned" in page.text
    assert "Training" not in page.text
    assert "grey" not in page.text


def test_no_category_learned_is_said(tmp_path):
    evals = make_pipeline(tmp_path, make_prep(tmp_path / "prep", groups=4), {"base": 0.0})
    page = Page(write_report(evals, None, None, tmp_path / "r.html", "t").read_text())
    assert "No category is shown to be learned." in page.text


@pytest.mark.parametrize("kept", ["facade", None])
def test_boxes_are_told_by_level_and_are_no_letters(tmp_path, kept):
    def boxed(row):
        if row.category == kept:
            return row
        asked = {"task": "gs_grounding", "category": "level3", "meta": {"level": 3}}
        return dataclasses.replace(row, options=None, answer=[0, 0, 16, 16], answer_type="box", **asked)

    evals = make_pipeline(
        tmp_path, make_prep(tmp_path / "prep", groups=6, change=boxed), {"base": 0.5, "sft": 0.9}
    )
    html = write_report(evals, None, None, tmp_path / "r.html", "t").read_text()
    page = Page(html)
    assert "[0, 0, 16, 16]</text>" not in html
    assert ("how often each answer is given" in html) is (kept is not None)
    for words in ("level 3", "level 3 and 4", "IoU from 0.5", "a box was read"):
        assert words in page.text
    assert page.open == []


def test_the_file_stays_small_with_large_photographs(tmp_path):
    def enlarge(row):
        pictures = []
        for index in range(4):
            path = tmp_path / "prep" / "images" / f"{row.group.replace('/', '-')}-{index}.png"
            if not path.exists():
                noise = random.Random(index).randbytes(900 * 500 * 3)
                Image.frombytes("RGB", (900, 500), noise).save(path, compress_level=0)
            pictures.append(ImageRef(path.name, "street", "", 900, 500))
        return dataclasses.replace(row, images=tuple(pictures))

    evals = make_pipeline(
        tmp_path, make_prep(tmp_path / "prep", groups=5, change=enlarge), {"base": 0.3, "sft": 0.6}
    )
    out = write_report(evals, None, None, tmp_path / "r.html", "t")
    assert out.read_text().count("data:image/jpeg") == 48
    assert out.stat().st_size < 3_000_000


def test_metrics_may_be_odd(tmp_path, pipeline):
    grpo = trained(
        tmp_path / "grpo",
        [
            {"step": 1, "reward": 0.5},
            {"step": 2},
            {"step": 3, "reward": None},
            {"note": "no step", "reward": 1},
        ],
    )
    html = write_report({"base": pipeline["base"]}, grpo, None, tmp_path / "r.html", "t").read_text()
    assert "reward over 1 steps" in html


@pytest.mark.parametrize("fault", ["unfinished", "other rows", "nothing", "prep gone"])
def test_faults_are_named(tmp_path, pipeline, fault):
    evals = {key: pipeline[key] for key in ("base", "sft")}
    if fault == "unfinished":
        (pipeline["sft"] / "manifest.json").unlink()
        message = r"eval-sft is not finished"
    elif fault == "other rows":
        write_jsonl(
            pipeline["sft"] / "predictions.jsonl", list(read_jsonl(pipeline["sft"] / "predictions.jsonl"))[1:]
        )
        message = r"eval-base and .*eval-sft answered different rows"
    elif fault == "nothing":
        evals, message = {}, "no finished evaluation"
    else:
        (tmp_path / "prep" / "rows" / "test.jsonl").unlink()
        message = r"prepared set .*prep.* is gone"
    with pytest.raises(UserError, match=message):
        write_report(evals, None, None, tmp_path / "r.html", "t")
    assert not (tmp_path / "r.html").exists()


def test_report_needs_no_torch():
    heavy = "{'torch', 'transformers', 'verl', 'ray', 'pandas', 'datasets'}"
    code = f"import sys, recipes.report; sys.exit(bool({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_intervals_are_finite(pipeline):
    assert all(
        math.isfinite(record[key]) for record in summary(pipeline) for key in ("low", "high", "accuracy")
    )
