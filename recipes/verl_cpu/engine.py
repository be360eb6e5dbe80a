"""Generation with transformers on the CPU: all answers of a step in one left-padded batch, with a cache."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from omegaconf import OmegaConf
from transformers import LogitsProcessor, LogitsProcessorList

from recipes.backbone import load_model

LOADING = OmegaConf.create({"device": "cpu", "dtype": "float32", "attention": "sdpa"})
PLACEHOLDERS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


@dataclass(frozen=True)
class Prompt:
    """One question as the model reads it.

    - `token_ids`: with every picture's placeholder repeated to its number of tokens.
    - `features`: from the processor: `pixel_values` (patches, values of a patch), `image_grid_thw`
      (pictures, 3) in patches, `images_seqlens` (pictures,) patches of each; empty without pictures.
    - `positions`: (4, length) ids of text, time, height and width.
    """

    token_ids: list[int]
    features: dict[str, torch.Tensor]
    positions: torch.Tensor

    def continued(self, answer: list[int]) -> torch.Tensor:
        """Position ids (4, length + answer) once `answer`, plain text, follows."""
        steps = torch.arange(len(answer))
        text, place = len(self.token_ids) + steps, self.positions[1:].max() + 1 + steps
        return torch.cat([self.positions, torch.stack([text, place, place, place])], dim=1)


@dataclass(frozen=True)
class Completion:
    """Sampled tokens up to and with the end token, and the log-probability each was sampled with."""

    token_ids: list[int]
    log_probs: list[float]


class _Sampling(LogitsProcessor):
    """Temperature and banned tokens; keeps the log-probability of every token that was sampled."""

    def __init__(self, temperature: float, banned: torch.Tensor) -> None:
        self.temperature, self.banned = temperature, banned
        self.log_probs: list[torch.Tensor] = []
        self._last: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.record(input_ids)
        scores = scores.float() / self.temperature
        scores[:, self.banned] = float("-inf")
        self._last = scores.log_softmax(-1)
        return self._last

    def record(self, input_ids: torch.Tensor) -> None:
        """Note the log-probability of the newest column of `input_ids` (batch, length)."""
        if self._last is not None:
            self.log_probs.append(self._last.gather(1, input_ids[:, -1:]))


class Engine:
    """The policy for generation; its weights are replaced after every update of the actor."""

    def __init__(self, path: str, end_ids: Sequence[int], pad_id: int, vocabulary: int) -> None:
        """Load the model at `path`.

        Ids from `vocabulary` on, the tokenizer's length, are never sampled: they decode to nothing. Nor are
        picture placeholders: one without a picture behind it would stop training.
        """
        self.model = load_model(path, LOADING)
        config = self.model.config
        self.image_id = config.image_token_id
        banned = {getattr(config, name) for name in PLACEHOLDERS}
        banned |= set(range(vocabulary, config.get_text_config().vocab_size))
        self.banned = torch.tensor(sorted(banned))
        self.end_ids, self.pad_id = sorted(end_ids), pad_id

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Copy named tensors into the model.

        Raises:
            KeyError: a name that the model does not have.
        """
        own = self.model.state_dict()
        with torch.no_grad():
            for name, tensor in weights:
                own[name].copy_(tensor)

    @torch.inference_mode()
    def generate(
        self, prompts: Sequence[Prompt], answers: int, temperature: float, max_new_tokens: int, seed: int
    ) -> list[list[Completion]]:
        """`answers` completions of every prompt, in the prompts' order; temperature 0 decodes greedily.

        The same prompts, weights and seed give the same tokens.
        """
        torch.manual_seed(seed)
        rows = [prompt for prompt in prompts for _ in range(answers)]
        length = max(len(prompt.token_ids) for prompt in prompts)
        input_ids = torch.full((len(rows), length), self.pad_id)
        attention_mask = torch.zeros_like(input_ids)
        for row, prompt in enumerate(rows):
            start = length - len(prompt.token_ids)
            input_ids[row, start:] = torch.tensor(prompt.token_ids)
            attention_mask[row, start:] = 1
        features = {
            name: torch.cat([prompt.features[name] for prompt in rows])
            for name in ("pixel_values", "image_grid_thw")
            if name in rows[0].features
        }
        sampling = _Sampling(temperature or 1.0, self.banned)
        output = self.model.generate(
            input_ids=input_ids,
            attention_mask=attention_mask,
            mm_token_type_ids=(input_ids == self.image_id).long(),
            **features,
            max_new_tokens=max_new_tokens,
            do_sample=temperature > 0,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            use_cache=True,
            pad_token_id=self.pad_id,
            eos_token_id=self.end_ids,
            logits_processor=LogitsProcessorList([sampling]),
        )
        sampling.record(output)
        tokens, log_probs = output[:, length:].tolist(), torch.cat(sampling.log_probs, 1).tolist()
        completions = [self._completion(*row) for row in zip(tokens, log_probs, strict=True)]
        return [completions[i : i + answers] for i in range(0, len(completions), answers)]

    def _completion(self, tokens: list[int], log_probs: list[float]) -> Completion:
        end = next((i + 1 for i, token in enumerate(tokens) if token in self.end_ids), len(tokens))
        return Completion(tokens[:end], log_probs[:end])
