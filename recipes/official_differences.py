"""The rows that the paper's toolkit and we do not see alike: `official.json` of an evaluation."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from data_prep.atomic import read_jsonl
from data_prep.rows import Row

MISSING_PICTURE = "drops the row: a picture is missing or cannot be read"


def differences(rows: Iterable[Row], quarantine: Path) -> dict[str, Any]:
    """`rows`: the toolkit drops them or asks them with other pictures by accident, and we score them.

    `left_out`: test rows that the toolkit drops and that have no score here either, for their pictures
    cannot be shown; they are in nobody's denominator. Both are lists of {id, rule, toolkit}; `counts` has
    how many by rule. `quarantine` is the list of the prepared set.
    """
    seen = [{"id": row.id, **found} for row in rows for found in row.meta.get("toolkit", ())]
    left_out = [
        {"id": aside["id"], "rule": "missing_picture", "toolkit": MISSING_PICTURE}
        for aside in (read_jsonl(quarantine) if quarantine.exists() else ())
        if aside["kind"] == "picture" and "test" in re.split(r"[^a-z0-9]+", aside["file"].lower())
    ]
    counts = Counter(found["rule"] for found in (*seen, *left_out))
    return {"counts": dict(sorted(counts.items())), "rows": seen, "left_out": left_out}
