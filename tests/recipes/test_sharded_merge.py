"""An adapter whose weights are spread over processes is merged whole."""

import os
import subprocess
import sys
from pathlib import Path

import recipes.torch_setup  # noqa: F401  before transformers
from recipes import checkpoints
from recipes.stages import plan

ROOT = Path(__file__).parents[2]


def test_an_adapter_that_two_processes_share_is_merged_whole(tiny, tmp_path):
    import torch
    from sharded_lora import MODEL, adapted

    from recipes.sft import merged

    base = str(plan(tiny(), "base").path / "checkpoint")
    script = ROOT / "tests/recipes/sharded_lora.py"
    folder = tmp_path / "checkpoint-1"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), base, str(folder), str(tmp_path / "store")],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    held = [[int(word) for word in (folder / f"held_{rank}").read_text().split()] for rank in (0, 1)]
    assert all(0 < part < whole for part, whole in held)

    checkpoints.seal(folder)
    expected = adapted(base).merge_and_unload().state_dict()
    found = merged(folder, base, MODEL).state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.allclose(found[key], expected[key], atol=1e-6) for key in expected)
