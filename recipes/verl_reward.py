"""verl's reward manager with a memory (`reward.reward_manager`): every answer is noted under its row id.

verl's own training metrics hold the sum of the reward alone, and its dump of a step's answers holds neither
row ids nor the reward's parts. Whatever function pays (`reward.path`), accuracy and format are noted as
`rewards` sees them: that is what the monitors hold against the pay.
"""

import json
import math
import os
import socket
from pathlib import Path
from typing import IO, Any

from omegaconf import DictConfig
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RawRewardFn, RewardManagerBase

from recipes.held_out import FLAG
from recipes.rollouts import HELD_OUT
from rewards import compute_score

ROW = ("id", "task", "category", "answer_type")  # what a noted answer keeps of its row's `extra_info`


class RecordingRewardManager(RewardManagerBase):
    """Scores an answer by the configured function and appends it to this process's file of answers.

    The files stand in `trainer.answers_dir`, those of held-out rows in its folder `held_out`. A line holds
    step, index (of the row in the RL set), session (of the answer in its group), what the row says (`ROW` and
    its gold), completion, tokens, truncated, and the result of `rewards.compute_score`, with the configured
    function's score in place of its own.
    """

    def __init__(
        self,
        config: DictConfig,
        tokenizer: Any,
        compute_score: RawRewardFn,
        reward_router_address: str | None = None,
        reward_model_tokenizer: Any = None,
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        folder = Path(config.trainer.answers_dir)
        self._limit = config.data.max_response_length
        self._options = dict(config.reward.custom_reward_function.reward_kwargs)
        name = f"{socket.gethostname()}-{os.getpid()}.jsonl"
        self._out, self._held_out = (_opened(path / name) for path in (folder, folder / HELD_OUT))

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        item = data[-1]
        fields, responses = item.non_tensor_batch, item.batch["responses"]
        length = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
        token_ids = responses[:length].tolist()
        text = self.tokenizer.decode(token_ids, skip_special_tokens=True)
        info = fields["extra_info"]
        gold = fields["reward_model"]["ground_truth"]
        asked = {"data_source": fields["data_source"], "ground_truth": gold, "extra_info": info}
        paid = self.compute_score(solution_str=text, **asked)
        score = float(paid["score"] if isinstance(paid, dict) else paid)
        if not math.isfinite(score):
            raise ValueError(f"the reward of an answer to {info['id']} is {score}, which is no finite number")
        result = {**compute_score(solution_str=text, **asked, **self._options), "score": score}
        record = {
            "step": int(fields["global_steps"]),
            "index": int(fields["index"]),
            "session": int(fields["session_id"]),
            **{key: info[key] for key in ROW},
            "gold": gold,
            "completion": text,
            "tokens": length,
            "truncated": length >= self._limit and token_ids[-1] != self.tokenizer.eos_token_id,
            **result,
        }
        out = self._held_out if info.get(FLAG) else self._out
        out.write(json.dumps(record, ensure_ascii=False) + "\n")
        out.flush()
        return {"reward_score": score, "reward_extra_info": result}


def _opened(path: Path) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "a", encoding="utf-8")  # open while the process lives
