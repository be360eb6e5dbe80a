"""The side-by-side viewer: what its pages hold, that nothing breaks out of them, what a browser shows."""

import http.client
import re
import shutil
import subprocess
import threading
from html.parser import HTMLParser
from pathlib import Path

import pytest
from evaluation_runs import make_eval, make_prep
from viewer_runs import ATTACK, make_box_runs, make_runs, predictions, rows_of

from data_prep.atomic import read_jsonl, write_jsonl
from data_prep.errors import UserError
from launch.cli import main
from launch.compose import compose
from recipes.viewer import MOST_BYTES, hash_source, write_viewer
from recipes.viewer_rows import Filter, labels, load, questions
from recipes.viewer_server import Viewer, server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(HTMLParser):
    """Articles with their attributes and text; scripts; the content policy; and every tag's attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.articles: list[dict] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.sources: dict[str, str] = {"script": "", "style": ""}
        self.count = 0
        self._in, self._source = False, ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.count += tag in self.sources
        if tag == "article":
            self.articles.append(dict(attrs))
            self.texts.append("")
            self._in = True
        if tag in self.sources:
            self._source = tag

    def handle_endtag(self, tag):
        self._in = self._in and tag != "article"
        if tag == self._source:
            self._source = ""

    def handle_data(self, data):
        if self._source:
            self.sources[self._source] += data
        elif self._in:
            self.texts[-1] += data

    @property
    def policy(self) -> str:
        return next(
            value
            for tag, name, value in self.attributes
            if tag == "meta" and name == "content" and "src" in value
        )


def pages(folder: Path) -> list[Page]:
    return [Page(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("page-*.html"))]


def test_every_row_is_shown_once_with_every_models_answer(tmp_path):
    runs = make_runs(tmp_path)
    write_viewer(runs, tmp_path / "viewer", "three models", 200)
    (page,) = pages(tmp_path / "viewer")
    found = {article["id"]: (article, text) for article, text in zip(page.articles, page.texts, strict=True)}
    asked = {row.id: row for row in rows_of(runs["good"])}
    assert found.keys() == asked.keys()
    own = [predictions(path) for path in runs.values()]
    for row_id, (article, text) in found.items():
        row = asked[row_id]
        assert (article["data-task"], article["data-category"]) == (row.task, row.category)
        right = [str(n) for n, p in enumerate(own) if p[row_id]["correct"]]
        wrong = [str(n) for n, p in enumerate(own) if not p[row_id]["correct"]]
        assert article["data-right"].split() == right
        assert article["data-wrong"].split() == wrong
        assert article["data-differ"] == str(int(len({p[row_id]["parsed"] for p in own}) > 1))
        assert row.question in text
        for label, predicted in zip(runs, own, strict=True):
            assert predicted[row_id]["completion"] in text
            assert label in text
        assert "reward" in text
        assert "accuracy" in text
    index = (tmp_path / "viewer/index.html").read_text(encoding="utf-8")
    assert all(label in index for label in runs)
    assert "page-001.html" in index


def test_what_a_model_wrote_stays_text_and_only_our_script_may_run(tmp_path):
    runs = make_runs(tmp_path, attack=True)
    write_viewer(runs, tmp_path / "viewer", ATTACK, 200)
    (page,) = pages(tmp_path / "viewer")
    assert page.count == 2  # one script and one style
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert not [value for _, name, value in page.attributes if name in ("src", "href") and not _inside(value)]
    assert all(ATTACK in text for text in page.texts)
    for tag, source in page.sources.items():
        assert f"{tag}-src {hash_source(source)};" in page.policy
    assert "default-src 'none'" in page.policy
    assert "unsafe" not in page.policy


def _inside(value: str | None) -> bool:
    return bool(value) and value.startswith(("#p", "data:image/", "index.html"))


def test_boxes_are_drawn_over_the_target_alone(tmp_path):
    boxes = {"near": "[22, 12, 82, 58]", "far": "[150, 50, 190, 90]"}
    answers = {label: f"<answer> {box} </answer>" for label, box in boxes.items()} | {"mute": "no"}
    runs = make_box_runs(tmp_path, answers)
    write_viewer(runs, tmp_path / "viewer", "boxes", 200)
    html = (tmp_path / "viewer/page-001.html").read_text(encoding="utf-8")
    drawn = re.findall(
        r'<rect class="(\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', html
    )
    assert [(style, *map(float, corners)) for style, *corners in drawn] == [
        ("c0", 22, 12, 60, 46), ("c1", 150, 50, 40, 40), ("gold", 20, 10, 60, 50),
    ] * 2  # fmt: skip
    for svg in re.findall(r'<svg class="picture".*?</svg>', html, re.DOTALL):
        assert ("<rect" in svg) == ('viewBox="0 0 200 100"' in svg)
    (page,) = pages(tmp_path / "viewer")
    assert [a["data-differ"] for a in page.articles] == ["1", "1"]


def test_pages_stay_below_the_limit_hold_every_row_and_every_picture_they_name(tmp_path):
    runs = make_runs(tmp_path, groups=12)
    write_viewer(runs, tmp_path / "viewer", "t", 200)
    write_viewer(runs, tmp_path / "viewer", "t", 200, most=220_000)
    files = sorted((tmp_path / "viewer").glob("page-*.html"))
    assert len(files) > 2
    assert all(path.stat().st_size <= 220_000 for path in files)
    rows = [article["id"] for page in pages(tmp_path / "viewer") for article in page.articles]
    assert sorted(rows) == sorted(row.id for row in rows_of(runs["good"]))
    for page in pages(tmp_path / "viewer"):
        named = {
            value.removeprefix("#") for tag, name, value in page.attributes if tag == "use" and name == "href"
        }
        there = {value for tag, name, value in page.attributes if tag == "image" and name == "id"}
        assert named == there
    write_viewer(runs, tmp_path / "viewer", "t", 200)
    assert len(list((tmp_path / "viewer").glob("page-*.html"))) == 1
    assert MOST_BYTES == 25 * 10**6


def test_models_that_saw_other_pictures_stand_beside_each_other(tmp_path):
    """As without and with an auxiliary view; a row that one of them lacks says so."""
    runs = make_runs(tmp_path)
    prep = make_prep(tmp_path / "other", groups=4)
    rows = list(read_jsonl(prep.path / "rows/test.jsonl"))
    extra = {**rows[0]["images"][0], "path": "xx/view.png", "sha256": "view", "role": "miniature"}
    (prep.path / "images/xx").mkdir()
    shutil.copy(prep.path / "images" / rows[0]["images"][0]["path"], prep.path / "images/xx/view.png")
    kept = [{**row, "images": [*row["images"], extra]} for row in rows[1:]]
    write_jsonl(prep.path / "rows/test.jsonl", kept)
    run = make_eval(tmp_path / "eval-seen-0", prep, "base")
    old = predictions(runs["fair"])
    write_jsonl(run.path / "predictions.jsonl", [old[row["id"]] for row in kept])
    shutil.copy(runs["fair"] / "scores.json", run.path)
    run.finish({})
    write_viewer({**runs, "with a view": run.path}, tmp_path / "viewer", "t", 200)
    (page,) = pages(tmp_path / "viewer")
    texts = {a["id"]: text for a, text in zip(page.articles, page.texts, strict=True)}
    assert "Not asked of with a view." in texts[rows[0]["id"]]
    for row in kept:
        assert "miniature, 32 × 32; seen by with a view" in " ".join(texts[row["id"]].split())


def test_labels_tell_runs_apart(tmp_path):
    plain, deep = make_prep(tmp_path / "plain"), make_prep(tmp_path / "deep")
    config = (deep.path / "config.yaml").read_text()
    (deep.path / "config.yaml").write_text(config.replace("views: none", "views: depth"))
    paths = [make_eval(tmp_path / f"eval-base-{n}", p, "base").path for n, p in enumerate((plain, deep))]
    assert list(labels(paths)) == ["eval-base", "eval-base, depth"]
    paths = [Path("runs/a/eval-base-1"), Path("runs/a/eval-sft-2")]
    assert list(labels(paths)) == ["eval-base", "eval-sft"]
    paths = [Path("runs/a/eval-base-1"), Path("runs/b/eval-base-2")]
    assert list(labels(paths)) == ["a, eval-base", "b, eval-base"]
    paths = [Path("runs/a/eval-base-1"), Path("runs/a/eval-base-2")]
    assert list(labels(paths)) == ["a, eval-base-1", "a, eval-base-2"]


def test_what_is_no_finished_evaluation_is_named(tmp_path):
    runs = make_runs(tmp_path)
    with pytest.raises(UserError, match=r"nowhere is no finished evaluation"):
        load({"a": tmp_path / "nowhere"})
    with pytest.raises(UserError, match="no finished evaluation to look at"):
        load({})
    shutil.rmtree(tmp_path / "prep/rows")
    with pytest.raises(UserError, match=r"the prepared set .*prep, which blind answered, is gone"):
        questions(load(runs))


def wanted_ids(runs, wanted: Filter) -> list[str]:
    return [q.row.id for q in questions(load(runs)) if wanted.takes(q)]


FILTERS = {
    "task=s2g": Filter(task="s2g"),
    "category=facade&m2=right": Filter(category="facade", verdicts=((2, True),)),
    "m0=wrong&m1=right": Filter(verdicts=((0, False), (1, True))),
    "differ=1": Filter(differ=True),
    "task=g2s&differ=1&m0=wrong&m2=right": Filter("g2s", "", True, ((0, False), (2, True))),
    "category=nothing": Filter(),  # no entry of the list: nothing is chosen
}


def test_a_filter_takes_what_it_says(tmp_path):
    runs = make_runs(tmp_path, groups=8)
    own = [predictions(path) for path in runs.values()]
    everything = wanted_ids(runs, Filter())
    for text, wanted in FILTERS.items():
        fields = dict(part.split("=") for part in text.split("&"))
        if "nothing" not in text:
            assert Filter.read(fields, 3) == wanted
        expected = [
            row_id
            for row_id in everything
            if wanted.task in ("", own[0][row_id]["task"])
            and wanted.category in ("", own[0][row_id]["category"])
            and (not wanted.differ or len({p[row_id]["parsed"] for p in own}) > 1)
            and all(own[n][row_id]["correct"] == right for n, right in wanted.verdicts)
        ]
        assert wanted_ids(runs, wanted) == expected
    assert Filter.read({"m9": "right", "m0": "perhaps", "x": "y"}, 3) == Filter()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
def test_a_browser_shows_the_rows_that_the_address_asks_for(tmp_path):
    runs = make_runs(tmp_path, groups=8, attack=True)
    write_viewer(runs, tmp_path / "viewer", "three models", 200)
    page = tmp_path / "viewer/page-001.html"
    everything = wanted_ids(runs, Filter())
    for text, wanted in FILTERS.items():
        seen = Page(dumped(f"{page.as_uri()}#{text}", tmp_path))
        shown = [article["id"] for article in seen.articles if "hidden" not in article]
        assert shown == wanted_ids(runs, wanted), text
        assert len(seen.articles) == len(everything)
        if wanted != Filter():
            assert 0 < len(shown) < len(everything)
    html = dumped(page.as_uri(), tmp_path)
    assert "<title>three models</title>" in html  # the attack would have changed it
    assert f"{len(everything)} of {len(everything)} rows on this page" in html


def dumped(address: str, folder: Path) -> str:
    """The document after its script has run."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               f"--user-data-dir={folder}/chromium", "--dump-dom", address]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.fixture
def served(tmp_path):
    runs = make_runs(tmp_path, groups=12)
    http_server = server(Viewer(runs, "served", 200), 0)
    thread = threading.Thread(target=http_server.serve_forever, daemon=True)
    thread.start()
    yield runs, http_server.server_address[1]
    http_server.shutdown()
    http_server.server_close()
    thread.join()


def get(port: int, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read(), dict(answer.getheaders())


def test_the_server_filters_all_rows_and_gives_pictures_of_rows_alone(served):
    runs, port = served
    for text, wanted in FILTERS.items():
        if "nothing" in text:
            continue
        found: list[str] = []
        for start in range(0, 100, 25):
            status, content, headers = get(port, f"/?{text}&from={start}")
            assert status == 200
            found += [article["id"] for article in Page(content.decode()).articles]
        assert found == wanted_ids(runs, wanted), text
    status, content, headers = get(port, "/")
    page = Page(content.decode())
    assert headers["Content-Security-Policy"] == page.policy
    for tag, source in page.sources.items():
        assert f"{tag}-src {hash_source(source)};" in page.policy
    pictures = {value for tag, name, value in page.attributes if tag == "image" and name == "href"}
    assert pictures
    for address in pictures:
        status, content, headers = get(port, address)
        assert (status, headers["Content-Type"], content[:2]) == (200, "image/jpeg", b"\xff\xd8")
    for address in ("/picture/../../etc/passwd", "/picture//etc/passwd", "/etc/passwd", "/picture/", "/x"):
        assert get(port, address)[0] == 404
    assert get(port, "/", Host="example.org")[0] == 403
    assert get(port, "/?from=x&m0=maybe")[0] == 200


def test_a_port_that_is_taken_is_named(served):
    runs, port = served
    with pytest.raises(UserError, match=f"port {port} of 127.0.0.1 cannot be used"):
        server(Viewer(runs, "t", 200), port)


def test_the_command_compares_any_runs(tmp_path, capsys, monkeypatch):
    runs = make_runs(tmp_path)
    listed = ",".join(str(path) for path in runs.values())
    options = ["recipe=imagination_cot", "scale=tiny", f"runs_dir={tmp_path}/runs", f"report.runs=[{listed}]"]
    assert main(["report", *options]) == 0
    index = Path(re.search(r"viewer: (\S+index\.html)", capsys.readouterr().out)[1])
    assert [page.articles for page in pages(index.parent)]
    assert main(["report", *options[:-1], "report.runs=[nowhere]"]) == 2
    assert "nowhere is no finished evaluation" in capsys.readouterr().err
    assert main(["eval", *options, "serve=true"]) == 2
    assert "use launch report serve=true" in capsys.readouterr().err
    served = []
    monkeypatch.setattr("recipes.viewer_server.serve", lambda *given: served.append(given[:4]))
    assert main(["report", *options, "serve=true", "report.port=0"]) == 0
    assert served == [
        (labels(list(runs.values())), "imagination_cot (tiny)", compose(options).report.picture_side, 0)
    ]
