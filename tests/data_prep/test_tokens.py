"""Token counts from sizes alone equal what the image processors of transformers make of the pictures."""

import random

import pytest
from PIL import Image

from data_prep.tokens import (
    MERGE,
    PATCH_SIZE,
    TILED,
    ImageBudget,
    TileBudget,
    most_tiles,
    prompt_tokens,
    token_side,
)

LIMITS = [(4, 16_384), (4, 256), (64, 64), (200, 300)]  # smallest and largest number of tokens
QWEN = [family for family in PATCH_SIZE if family != TILED]
CVSBENCH = [(1232, 224), (370, 370), (512, 512), (1024, 1024)]


def sizes(count: int) -> list[tuple[int, int]]:
    """Widths and heights: CVSBench's, odd ones, very long ones, and those that round to half a token."""
    rng = random.Random(1)
    edges = [(2, 2), (2, 400), (399, 2), (48, 48), (80, 112), (42, 70), (14, 28), (33, 31), (1, 200)]
    drawn = [(rng.randint(2, 700), rng.randint(2, 700)) for _ in range(count // 2)]
    halves = [(16 * rng.randint(1, 40), 14 * rng.randint(1, 40)) for _ in range(count // 4)]
    long = [(rng.randint(2, 20), rng.randint(100, 350)) for _ in range(count)]
    long = [size for size in long if size[1] <= 200 * size[0]]
    return (CVSBENCH + edges + drawn + halves + long)[:count]


@pytest.mark.parametrize("family", QWEN)
def test_two_hundred_sizes_equal_the_processor(family):
    import recipes.torch_setup  # noqa: F401  isort: skip  before transformers
    from transformers import Qwen2VLImageProcessor

    patch = PATCH_SIZE[family]
    tried = sizes(200)
    assert len(set(tried)) > 190
    for index, (width, height) in enumerate(tried):
        least, most = (count * token_side(family) ** 2 for count in LIMITS[index % len(LIMITS)])
        processor = Qwen2VLImageProcessor(
            patch_size=patch, merge_size=MERGE, size={"shortest_edge": least, "longest_edge": most}
        )
        picture = Image.new("RGB", (width, height))
        time, rows, columns = processor(images=[picture], return_tensors="pt")["image_grid_thw"][0].tolist()
        budget = ImageBudget(patch, least, most)
        assert time == 1
        assert budget.resized(width, height) == (columns * patch, rows * patch), (width, height)
        assert budget.tokens(width, height) == rows * columns // MERGE**2


@pytest.mark.parametrize("family", QWEN)
def test_every_size_of_a_grid_equals_the_processors_own_rule(family):
    import recipes.torch_setup  # noqa: F401  isort: skip  before transformers
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    side = token_side(family)
    for least, most in LIMITS:
        budget = ImageBudget(PATCH_SIZE[family], least * side**2, most * side**2)
        for width in range(2, 900, 13):
            for height in range(max(2, -(-width // 200)), min(900, 200 * width), 37):
                theirs = smart_resize(height, width, side, budget.min_pixels, budget.max_pixels)
                assert budget.resized(width, height) == theirs[::-1], (width, height)


@pytest.mark.parametrize("most", [1, 2, 3, 6, 12])
def test_tiles_equal_the_processors(most):
    import recipes.torch_setup  # noqa: F401  isort: skip  before transformers
    from transformers import GotOcr2ImageProcessor

    processor = GotOcr2ImageProcessor(
        size={"height": 448, "width": 448}, crop_to_patches=True, min_patches=1, max_patches=most
    )
    budget = TileBudget(448, most)
    tried = [
        *sizes(200),
        (448, 448),
        (896, 896),
        (1344, 1344),
        (1600, 900),
        (2000, 1000),
        (633, 633),
        (634, 634),
    ]
    for width, height in tried:
        tiles = processor.get_number_of_image_patches(height, width)
        assert budget.tokens(width, height) == 2 + 256 * tiles, (width, height)


def test_tiles_of_a_real_picture():
    import recipes.torch_setup  # noqa: F401  isort: skip  before transformers
    from transformers import GotOcr2ImageProcessor

    processor = GotOcr2ImageProcessor(size={"height": 56, "width": 56}, crop_to_patches=True, max_patches=6)
    for width, height in ((200, 60), (56, 56), (300, 200)):
        made = processor(images=[Image.new("RGB", (width, height))], return_tensors="pt")["pixel_values"]
        assert TileBudget(56, 6, 4).tokens(width, height) == 2 + 4 * len(made)


@pytest.mark.parametrize(("tokens", "tiles"), [(256, 1), (512, 1), (1024, 3), (3328, 12)])
def test_the_budget_holds_the_tiles_and_the_whole_picture(tokens, tiles):
    assert most_tiles(tokens) == tiles
    assert TileBudget(448, tiles).tokens(2000, 900) <= tokens + 2


def test_cvsbenchs_pictures_under_the_papers_model():
    """Qwen3-VL at model.max_image_tokens=1024."""
    budget = ImageBudget(16, 65_536, 1024 * 32 * 32)
    assert {size: budget.tokens(*size) for size in CVSBENCH} == {
        (1232, 224): 38 * 7,
        (370, 370): 12 * 12,
        (512, 512): 16 * 16,
        (1024, 1024): 32 * 32,
    }
    assert not any(budget.shrinks(*size) for size in CVSBENCH)
    assert budget.shrinks(1100, 1100)
    assert budget.tokens(1100, 1100) <= 1024


def test_a_shape_that_no_model_takes_is_refused():
    with pytest.raises(ValueError, match="more than 200 times"):
        ImageBudget(16, 4096, 1 << 20).tokens(2, 401)


def test_a_prompt_is_its_text_with_every_placeholder_replaced():
    budget = ImageBudget(16, 1024, 1 << 20)
    text = "<image> <image> What is it?"
    counted = prompt_tokens(text, [(64, 64), (96, 32)], budget, lambda words: len(words.split()))
    assert counted == 5 - 2 + 4 + 3
