"""Rules of the house that a reader may rely on, checked on the source itself."""

import ast
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
ROOMS = ("configs", "data_prep", "launch", "recipes", "rewards")
MOST_LINES = 500
SOURCES = [p for folder in (*ROOMS, "tests", "bench") for p in sorted((ROOT / folder).rglob("*.py"))]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.AST) -> set[str]:
    """Top-level packages that `tree` imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_every_room_is_looked_at():
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == {*ROOMS, "tests", "bench"}


def test_imports_point_one_way(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert lint_imports(cache_dir=None) == 0, capsys.readouterr().out


def test_rewards_need_the_standard_library_alone():
    paths = sorted((ROOT / "rewards").rglob("*.py"))
    used = set().union(*(imported(parsed(path)) for path in paths))
    assert len(paths) > 3
    assert used - {"rewards"} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_swallows_no_error(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{path}:{node.lineno} has a bare except"
            caught = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
            silent = all(isinstance(line, ast.Pass) for line in node.body)
            assert not (silent and caught & {"Exception", "BaseException"}), (
                f"{path}:{node.lineno} hides an error"
            )


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if "tests" not in path.parts],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_file_says_what_it_is(path):
    assert ast.get_docstring(parsed(path)), f"{path} has no docstring"
