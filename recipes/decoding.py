"""Answer rows with a vision-language model in this process: batched, left-padded, with a key-value cache."""

import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from omegaconf import DictConfig
from PIL import Image
from transformers import BatchFeature, GenerationConfig, LogitsProcessor, LogitsProcessorList

from data_prep.errors import UserError
from data_prep.prompts import PromptSpec, build_messages
from data_prep.rows import Row
from recipes.backbone import load_model, load_processor
from recipes.engines.answers import GREEDY_BELOW, MID_GREY, Completion, row_seed


class Decoder:
    """A model with its processor, ready to answer.

    `temperature` at or below 0.01 takes the likeliest token. Above, each row is sampled from its own
    random stream, made of `seed` and the row's id, so that an answer depends (up to rounding) neither on
    the rows beside it nor on where a killed run was taken up again. The checkpoint's own sampling defaults
    (penalties, top-k) are not used.
    """

    def __init__(
        self, checkpoint: str, model: DictConfig, temperature: float, max_new_tokens: int, seed: int
    ) -> None:
        self.model = load_model(checkpoint, model).to(model.device)
        self.processor = load_processor(checkpoint, model)
        self.device = model.device
        self.temperature, self.seed = temperature, seed
        tokenizer = self.processor.tokenizer
        configured = self.model.generation_config.eos_token_id
        listed = configured if isinstance(configured, list) else [configured]
        self.stops = sorted({tokenizer.eos_token_id, *listed} - {None})
        self.model.generation_config = GenerationConfig(
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=self.stops,
            pad_token_id=tokenizer.pad_token_id,
        )

    def answer(
        self, rows: Sequence[Row], pictures: Sequence[Sequence[Image.Image]], prompt: PromptSpec
    ) -> list[Completion]:
        """One completion a row, in order; `pictures` are the rows' images, RGB.

        Raises:
            UserError: the batch does not fit into the memory of the GPU.
        """
        inputs = self.inputs(rows, pictures, prompt)
        if not inputs["attention_mask"][:, -1].all():
            raise RuntimeError("the batch is padded on the right; a model would continue from the padding")
        noise = LogitsProcessorList()
        if self.temperature > GREEDY_BELOW:
            noise.append(_RowNoise([row.id for row in rows], self.seed, self.temperature))
        try:
            with torch.inference_mode():
                output = self.model.generate(**inputs.to(self.device), logits_processor=noise)
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"{len(rows)} rows at once do not fit into the GPU's memory; "
                "give a smaller model.eval_batch_size (the evaluation continues, nothing is lost)."
            ) from error
        return [self._completion(ids) for ids in output[:, inputs["input_ids"].shape[1] :].tolist()]

    def inputs(
        self, rows: Sequence[Row], pictures: Sequence[Sequence[Image.Image]], prompt: PromptSpec
    ) -> BatchFeature:
        """What the model is given: token ids (rows, length), padded on the left, and patches of pictures."""
        texts = [
            self.processor.apply_chat_template(
                build_messages(row, prompt), add_generation_prompt=True, tokenize=False
            )
            for row in rows
        ]
        flat = [picture for shown in pictures for picture in shown]
        return self.processor(text=texts, images=flat or None, padding=True, return_tensors="pt")

    def _completion(self, ids: list[int]) -> Completion:
        end = next((i for i, token in enumerate(ids) if token in self.stops), None)
        written = ids if end is None else ids[:end]
        text = self.processor.tokenizer.decode(written, skip_special_tokens=True)
        return Completion(text, len(written) + (end is not None), end is None)


class _RowNoise(LogitsProcessor):
    """Turns "take the largest" into sampling at a temperature: logits / T plus Gumbel noise.

    The largest of such sums is distributed as the softmax (Gumbel-max), and the noise can come from a
    generator of each row's own.
    """

    def __init__(self, ids: Sequence[str], seed: int, temperature: float) -> None:
        self.temperature = temperature
        self.generators = [torch.Generator().manual_seed(row_seed(seed, name)) for name in ids]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        drawn = [torch.empty(scores.shape[1]).exponential_(generator=own) for own in self.generators]
        gumbel = -torch.stack(drawn).log().to(scores.device)
        return scores.float() / self.temperature + gumbel


class Pictures:
    """Pictures of prepared rows; one that several rows share is decoded once while it is in use.

    `blank` puts mid-grey of the same size in their place: what is answered then is known without looking.
    """

    def __init__(self, folder: Path, blank: bool, kept: int = 256) -> None:
        self.folder, self.blank = folder, blank
        self._load = functools.lru_cache(maxsize=kept)(self._decode)

    def of(self, row: Row) -> list[Image.Image]:
        """The row's images, RGB, in its order."""
        return [self._load(image.path) for image in row.images]

    def _decode(self, path: str) -> Image.Image:
        with Image.open(self.folder / path) as picture:
            return Image.new("RGB", picture.size, MID_GREY) if self.blank else picture.convert("RGB")
