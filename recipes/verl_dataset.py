"""verl's RL data set without its silent filter (`data.custom_cls`).

verl measures each prompt to drop those that are too long, and takes any exception while measuring for "too
long": rows vanish and the run goes on. Left off, its filter lets a long prompt through to the rollout, where
its whole group is replaced by copies. Here every prompt is measured once, from its text and the sizes of its
pictures, and the run stops with the ids of the rows that cannot be trained on.
"""

from typing import Any

import datasets
from PIL import Image
from qwen_vl_utils.vision_process import smart_resize
from verl.utils.dataset.rl_dataset import RLHFDataset

from data_prep.errors import UserError
from recipes import verl_stop
from recipes.length_budget import refusal

verl_stop.install()


class StrictDataset(RLHFDataset):
    """RLHFDataset that holds all rows of its file or raises UserError.

    `data.expected_rows` is how many the file was written with; it is not looked at when only a sample is
    asked for (`max_samples`), nor for `data.held_out_file`, whose answers are counted.
    """

    def maybe_filter_out_long_prompts(self, dataframe: datasets.Dataset | None = None) -> datasets.Dataset:
        """Return `dataframe` as it came, once every row of it is known to fit."""
        assert dataframe is not None
        trained_on = self.config.get("held_out_file") not in map(str, self.original_data_files)
        if trained_on and self.max_samples <= 0 and len(dataframe) != self.config.expected_rows:
            held = self.config.expected_rows
            raise UserError(f"{self.data_files[0]} yields {len(dataframe)} rows, not the {held} it holds.")
        faults = {}
        for record in dataframe:
            row_id = record["extra_info"]["id"]
            try:
                length = self.prompt_tokens(record)
            except (AssertionError, OSError, TypeError, ValueError) as error:
                faults[row_id] = f"{type(error).__name__}: {error}"
                continue
            if length > self.max_prompt_length:
                faults[row_id] = f"{length} tokens"
        if faults:
            raise refusal("RL", len(dataframe), self.max_prompt_length, faults)
        print(f"every one of {len(dataframe)} RL rows kept")
        return dataframe

    def prompt_tokens(self, record: dict[str, Any]) -> int:
        """Tokens of a row's prompt: its text, and for each picture what the processor makes of its size."""
        messages = self._build_messages(record, key=self.prompt_key)
        text = self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        tokens = len(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        pictures = [
            part["image"]
            for message in messages
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "image"
        ]
        # The text already holds one placeholder a picture.
        return tokens + sum(self._image_tokens(path) - 1 for path in pictures)

    def _image_tokens(self, path: str) -> int:
        with Image.open(path) as picture:
            width, height = picture.size
        processor = self.processor.image_processor
        side = processor.patch_size * processor.merge_size
        # qwen_vl_utils fits the picture to whole tokens, within limits of its own, before the processor does.
        height, width = smart_resize(height, width, factor=side)
        return processor.get_number_of_image_patches(height, width, {}) // processor.merge_size**2
