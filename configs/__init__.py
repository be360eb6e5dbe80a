"""The Hydra tree: `config.yaml` and the groups recipe, model, data, teacher, prompt, scale, cluster."""

from pathlib import Path

TREE = Path(__file__).parent
