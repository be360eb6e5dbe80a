"""verl's rows to token ids, picture features and positions, once a prompt instead of several times an answer.

Tokens come from the builder that verl's own agent loop uses and features from the same processor, so the
rollout sees what it would see on GPUs.
"""

from typing import Any

import torch
from omegaconf import DictConfig
from qwen_vl_utils import process_vision_info
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder
from verl.workers.config import HFModelConfig

from recipes.verl_cpu.engine import Prompt


class PromptEncoder:
    """Turns chat messages into prompts."""

    def __init__(self, model: HFModelConfig, data: DictConfig, max_length: int) -> None:
        self.processor, self.max_length = model.processor, max_length
        self.patch_size = self.processor.image_processor.patch_size
        self.image_id = model.hf_config.image_token_id
        self.builder = create_continuous_token_builder(
            model.tokenizer,
            hf_model_type=model.hf_config.model_type,
            chat_template_kwargs=data.get("apply_chat_template_kwargs", {}),
            mm_processor_kwargs=data.get("mm_processor_kwargs", {}),
            processor=self.processor,
        )

    def encode(self, messages: list[dict[str, Any]]) -> Prompt:
        """The prompt of chat `messages` whose picture parts hold paths.

        Raises:
            ValueError: the prompt is too long; cut, its placeholders would no longer fit its pictures.
        """
        images, _ = process_vision_info(messages, image_patch_size=self.patch_size)
        features: dict[str, torch.Tensor] = {}
        token_ids = self.builder.build_initial_tokens(messages, images=images, mm_inputs_out=features)
        if len(token_ids) > self.max_length:
            raise ValueError(f"a prompt of {len(token_ids)} tokens; data.max_prompt_length={self.max_length}")
        kept = {name: features[name] for name in ("pixel_values", "image_grid_thw") if name in features}
        if "image_grid_thw" in kept:
            grid = kept["image_grid_thw"]
            kept["images_seqlens"] = torch.repeat_interleave(grid[:, 1] * grid[:, 2], grid[:, 0])
        return Prompt(token_ids, kept, self._positions(token_ids, kept))

    def _positions(self, token_ids: list[int], features: dict[str, torch.Tensor]) -> torch.Tensor:
        ids = torch.tensor([token_ids])
        vision, _ = self.processor.get_rope_index(
            input_ids=ids,
            mm_token_type_ids=(ids == self.image_id).long(),
            image_grid_thw=features.get("image_grid_thw"),
        )
        return torch.cat([torch.arange(ids.size(1)).view(1, 1, -1), vision]).squeeze(1)
