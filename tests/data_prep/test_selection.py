"""Which questions are taken: categories, limits, and no training scene that is a test scene."""

from data_prep.quarantine import Quarantined
from data_prep.rows import ImageRef, Row
from data_prep.selection import select


def row(number: int, group: str, category: str = "roof") -> Row:
    return Row(
        id=f"{group}.{number}", benchmark="cvsbench", subset="fov", task="g2s",
        category=category, group=group,
        images=(ImageRef(f"{group}/{number}.jpg", "street"), ImageRef(f"{group}/all.jpg", "street")),
        question="?", options={"A": "x", "B": "y"}, answer="A",
    )  # fmt: skip


TRAIN = [row(number, f"fov/{group:04d}") for group in range(40) for number in range(3)]
TEST = [row(number, f"fov/{group:04d}") for group in range(40, 60) for number in range(3)]


def chosen(train=TRAIN, test=TEST, categories=None, max_test_rows=None, max_train_groups=None, seed=0):
    selection = select(test, train, categories, max_test_rows, max_train_groups, seed)
    taken = (
        [item for item in train if selection.takes_train(item)],
        [i for i in test if selection.takes_test(i)],
    )
    return selection, *taken


def test_without_limits_everything_is_taken_and_each_picture_once():
    selection, train, test = chosen()
    assert (train, test) == (TRAIN, TEST)
    assert len(selection.pictures) == len({*selection.pictures}) == 60 * 4


def test_limits_take_whole_groups_and_single_test_rows():
    selection, train, test = chosen(max_train_groups=7, max_test_rows=5)
    assert len(train) == 7 * 3
    assert len({item.group for item in train}) == 7
    assert len(test) == 5
    shown = {image.path for item in [*train, *test] for image in item.images}
    assert {*selection.pictures} == shown


def test_order_does_not_matter():
    _, train, test = chosen(max_train_groups=7, max_test_rows=5)
    _, train_reversed, test_reversed = chosen(TRAIN[::-1], TEST[::-1], max_train_groups=7, max_test_rows=5)
    assert {item.id for item in train} == {item.id for item in train_reversed}
    assert {item.id for item in test} == {item.id for item in test_reversed}


def test_categories():
    other = row(0, "fov/0003", "symmetry"), row(1, "fov/0050", "symmetry")
    selection, train, test = chosen([*TRAIN, other[0]], [*TEST, other[1]], categories={"symmetry"})
    assert (train, test) == ([other[0]], [other[1]])
    assert selection.categories_seen == ["roof", "symmetry"]


def test_a_fault_that_hides_the_category_is_never_filtered_out():
    faulty = Quarantined("?", "f", 1, "no question", group="fov/0003")
    assert chosen([*TRAIN, faulty], categories={"symmetry"})[1] == [faulty]


def test_training_scenes_of_the_test_set_are_known_whatever_the_limits():
    leak = row(9, "fov/0041")
    selection, train, _ = chosen([*TRAIN, leak], max_train_groups=2, max_test_rows=1)
    assert selection.leaks(leak)
    assert leak in train
    assert len(train) == 2 * 3 + 1
    assert not any(selection.leaks(item) for item in TRAIN)
    assert leak.images[0].path not in chosen([*TRAIN, leak])[0].pictures
    assert len(chosen([*TRAIN, leak], max_train_groups=40)[0].train_groups) == 40
    assert "fov/0041" not in chosen([*TRAIN, leak], max_train_groups=41)[0].train_groups


def test_a_question_that_cannot_be_read_keeps_its_place_in_the_choice():
    faulty = [Quarantined(item.id, "f", 1, "why", "picture", item.group, item.category) for item in TEST[:30]]
    ids = [item.id for item in chosen(test=TEST, max_test_rows=20)[2]]
    assert [item.id for item in chosen(test=[*faulty, *TEST[30:]], max_test_rows=20)[2]] == ids
