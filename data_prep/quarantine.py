"""What is set aside, and why: every row that does not reach a set is named, never skipped in silence."""

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["row", "picture", "reasoning", "leak", "view", "annotation"]


@dataclass(frozen=True)
class Quarantined:
    """A row set aside.

    - `id`: the row's id, or what is known of it (`cvsbench/fov/g2s/?`).
    - `file`, `line`: where it stands; `file` is relative to the data root, `line` counts from 1.
    - `reason`: one sentence for the person who mends it.
    - `kind`: what was at fault: the row's own fields, a picture, its reasoning, a scene of the test set, the
      lack of an auxiliary view, or, before there was a row, an annotation, an image or their whole file.
    - `group`, `category`: as in `Row` where they are known, else "".
    """

    id: str
    file: str
    line: int
    reason: str
    kind: Kind = "row"
    group: str = ""
    category: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "file": self.file, "line": self.line, "reason": self.reason, "kind": self.kind}
