from test_evaluate_scores import row

from data_prep.atomic import write_jsonl
from data_prep.quarantine import Quarantined
from recipes.official_differences import MISSING_PICTURE, differences


def test_rows_are_listed_by_what_the_toolkit_would_do(tmp_path):
    found = {"rule": "no_path", "toolkit": "drops the row"}
    rows = [row(name="q0"), row(name="q1", meta={"toolkit": [found]})]
    aside = [
        Quarantined("t", "fov/g2s/Ground2Sat_VQA_test.jsonl", 1, "x.jpg: cut", "picture"),
        Quarantined("s", "fov/g2s/Ground2Sat_VQA_train.jsonl", 1, "x.jpg: cut", "picture"),
        Quarantined("r", "fov/g2s/Ground2Sat_VQA_test.jsonl", 2, "no question", "row"),
    ]
    write_jsonl(tmp_path / "quarantine.jsonl", (item.to_json() for item in aside))
    assert differences(rows, tmp_path / "quarantine.jsonl") == {
        "counts": {"missing_picture": 1, "no_path": 1},
        "rows": [{"id": "q1", **found}],
        "left_out": [{"id": "t", "rule": "missing_picture", "toolkit": MISSING_PICTURE}],
    }
    assert differences(rows[:1], tmp_path / "none.jsonl") == {"counts": {}, "rows": [], "left_out": []}
