"""Nothing outside the data root is read."""

from pathlib import Path

import pytest

from data_prep.data_root import DataRoot, EscapesRootError
from data_prep.errors import UserError


@pytest.fixture
def release(tmp_path: Path) -> Path:
    root = tmp_path / "release"
    (root / "data").mkdir(parents=True)
    (root / "data/a.jpg").write_text("inside")
    (root / "data/inside.jpg").symlink_to(root / "data/a.jpg")
    (tmp_path / "secret.jpg").write_text("outside")
    (root / "data/outside.jpg").symlink_to(tmp_path / "secret.jpg")
    (root / "away").symlink_to(tmp_path)
    (root / "data/loop.jpg").symlink_to(root / "data/loop.jpg")
    return root


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("data/a.jpg", "data/a.jpg"),
        ("./data//a.jpg", "data/a.jpg"),
        ("{root}/data/a.jpg", "data/a.jpg"),
        ("data/inside.jpg", "data/inside.jpg"),
        ("data/loop.jpg", None),
        ("data/b.jpg", None),
        ("data", None),
        ("absent/a.jpg", None),
        ("data/a.jpg/x", None),
        ("data\0/a.jpg", None),
        ("x" * 5000 + "/a.jpg", None),
        ("", None),
    ],
)
def test_find_inside(release, name, found):
    assert DataRoot(release).find(name.format(root=release)) == found


@pytest.mark.parametrize(
    "name",
    [
        "../secret.jpg",
        "data/../../secret.jpg",
        "data/../data/a.jpg",
        "{outside}/secret.jpg",
        "/etc/passwd",
        "data/outside.jpg",
        "away/secret.jpg",
        "{root}-2/a.jpg",
        "{root}/../secret.jpg",
    ],
)
def test_what_leaves_the_root_is_refused(release, name):
    with pytest.raises(EscapesRootError):
        DataRoot(release).find(name.format(root=release, outside=release.parent))


def test_a_root_behind_a_link_is_one_root(release, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(release)
    root = DataRoot(link)
    assert root.find(f"{link}/data/a.jpg") == root.find(f"{release}/data/a.jpg") == "data/a.jpg"


def test_files_are_sorted_and_stay_inside(release):
    assert DataRoot(release).files("data") == ["a.jpg", "inside.jpg"]
    assert DataRoot(release).files("absent") == []


@pytest.mark.parametrize("name", ["absent", "data/a.jpg"])
def test_a_root_is_a_folder(release, name):
    with pytest.raises(UserError, match="not a folder"):
        DataRoot(release / name)
