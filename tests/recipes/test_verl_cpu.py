"""The CPU rollout: what it samples is what the actor will compute, and never what it must not."""

import types
from pathlib import Path

import pytest
import torch
from PIL import Image
from tensordict import TensorDict

import recipes.torch_setup  # noqa: F401  before transformers
from data_prep.atomic import read_jsonl
from data_prep.prompts import load_prompt, placeholder_prompt
from data_prep.rows import Row
from recipes.stages import plan
from recipes.verl_cpu.engine import LOADING, Engine, Prompt


@pytest.fixture(scope="module")
def checkpoint(tiny) -> Path:
    return plan(tiny(), "base").path / "checkpoint"


@pytest.fixture(scope="module")
def processor(checkpoint):
    from verl.utils.tokenizer import hf_processor

    return hf_processor(str(checkpoint))


@pytest.fixture(scope="module")
def messages(tiny) -> list[list[dict]]:
    """Chat messages of a few rows as verl's data set hands them to the rollout."""
    config = tiny()
    prep, prompt = plan(config, "prep").path, load_prompt(config.prompt)
    rows = [Row.from_json(record) for record in read_jsonl(prep / "rows/rl.jsonl")]
    chats = []
    for row in (rows[0], rows[-1], rows[len(rows) // 2]):
        text = placeholder_prompt(row, prompt)[0]["content"].removeprefix("<image>" * len(row.images))
        pictures = [{"type": "image", "image": str(prep / "images" / image.path)} for image in row.images]
        chats.append([{"role": "user", "content": [*pictures, {"type": "text", "text": text}]}])
    return chats


@pytest.fixture(scope="module")
def encoder(checkpoint):
    from omegaconf import OmegaConf
    from verl.workers.config import HFModelConfig

    from recipes.verl_cpu.prompts import PromptEncoder

    model = HFModelConfig(path=str(checkpoint), override_config={"attn_implementation": "sdpa"})
    return PromptEncoder(model, OmegaConf.create({}), max_length=1024)


@pytest.fixture(scope="module")
def prompts(encoder, messages) -> list[Prompt]:
    return [encoder.encode(chat) for chat in messages]


@pytest.fixture(scope="module")
def engine(checkpoint, processor) -> Engine:
    tokenizer = processor.tokenizer
    return Engine(str(checkpoint), [tokenizer.eos_token_id], tokenizer.pad_token_id, len(tokenizer))


def test_prompts_are_the_processors_own(prompts, messages, processor):
    for prompt, chat in zip(prompts, messages, strict=True):
        text = processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        pictures = [Image.open(part["image"]) for part in chat[0]["content"] if part["type"] == "image"]
        expected = processor(text=[text], images=pictures, return_tensors="pt")
        assert prompt.token_ids == expected["input_ids"][0].tolist()
        assert torch.equal(prompt.features["pixel_values"], expected["pixel_values"])
        assert torch.equal(prompt.features["image_grid_thw"], expected["image_grid_thw"])


def test_positions_are_the_models_own(engine, prompts):
    """Positions are computed once a prompt and continued for each answer; the model's own see the whole."""
    answer = [7, 8, 9, 10]
    for prompt in prompts:
        ids = torch.tensor([prompt.token_ids + answer])
        expected, _ = engine.model.model.get_rope_index(
            ids, (ids == engine.image_id).long(), image_grid_thw=prompt.features["image_grid_thw"]
        )
        found = prompt.continued(answer)
        assert torch.equal(found[0], torch.arange(ids.size(1)))
        assert torch.equal(found[1:], expected[:, 0])


def test_a_batch_answers_like_each_prompt_alone(engine, prompts):
    together = engine.generate(prompts, answers=1, temperature=0, max_new_tokens=12, seed=0)
    alone = [engine.generate([prompt], 1, 0, 12, 0)[0] for prompt in prompts]
    assert [group[0].token_ids for group in together] == [group[0].token_ids for group in alone]


def test_log_probabilities_are_those_of_a_forward_pass(engine, prompts):
    """Of the distribution that was sampled: at its temperature, without the tokens that are banned."""
    temperature = 0.7
    groups = engine.generate(prompts, answers=2, temperature=temperature, max_new_tokens=10, seed=1)
    for prompt, group in zip(prompts, groups, strict=True):
        for completion in group:
            ids = torch.tensor([prompt.token_ids + completion.token_ids])
            with torch.inference_mode():
                logits = engine.model(
                    input_ids=ids,
                    mm_token_type_ids=(ids == engine.image_id).long(),
                    pixel_values=prompt.features["pixel_values"],
                    image_grid_thw=prompt.features["image_grid_thw"],
                ).logits[0, len(prompt.token_ids) - 1 : -1]
            logits = logits.clone()
            logits[:, engine.banned] = float("-inf")
            expected = (logits / temperature).log_softmax(-1).gather(1, ids[0, len(prompt.token_ids) :, None])
            assert torch.allclose(torch.tensor(completion.log_probs), expected[:, 0], atol=1e-4)


def test_the_seed_decides(engine, prompts):
    def sample(seed: int) -> list[list[list[int]]]:
        groups = engine.generate(prompts, answers=2, temperature=1.0, max_new_tokens=8, seed=seed)
        return [[completion.token_ids for completion in group] for group in groups]

    assert sample(3) == sample(3)
    assert sample(3) != sample(4)
    first, second = sample(3)[0]
    assert first != second


def test_placeholders_and_ids_past_the_tokenizer_are_never_sampled(checkpoint, processor, prompts):
    from recipes.backbone import load_model

    tokenizer = processor.tokenizer
    model = load_model(str(checkpoint), LOADING)
    placeholders = [
        getattr(model.config, name) for name in ("image_token_id", "video_token_id", "vision_start_token_id")
    ]
    past = list(range(len(tokenizer) - 5, len(tokenizer)))
    biased = Engine(str(checkpoint), [tokenizer.eos_token_id], tokenizer.pad_token_id, len(tokenizer) - 5)
    # A head that wants nothing else.
    head = torch.nn.Linear(model.config.text_config.hidden_size, model.config.text_config.vocab_size)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    with torch.no_grad():
        head.bias[[*placeholders, *past]] = 50.0
    biased.model.lm_head = head
    groups = biased.generate(prompts, answers=4, temperature=1.0, max_new_tokens=30, seed=0)
    sampled = {token for group in groups for completion in group for token in completion.token_ids}
    assert sampled
    assert not sampled & {*placeholders, *past}


def test_an_answer_ends_with_the_end_token(checkpoint, processor, prompts):
    tokenizer = processor.tokenizer
    every_token_ends = list(range(len(tokenizer)))
    engine = Engine(str(checkpoint), every_token_ends, tokenizer.pad_token_id, len(tokenizer))
    groups = engine.generate(prompts, answers=2, temperature=1.0, max_new_tokens=5, seed=0)
    assert {len(completion.token_ids) for group in groups for completion in group} == {1}
    assert {len(completion.log_probs) for group in groups for completion in group} == {1}


def test_new_weights_are_used_and_unknown_ones_refused(engine, prompts):
    before = engine.generate(prompts, 1, 0, 8, 0)
    own = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    generator = torch.Generator().manual_seed(0)
    noisy = {name: tensor + torch.randn(tensor.shape, generator=generator) for name, tensor in own.items()}
    engine.load_weights(noisy.items())
    assert engine.generate(prompts, 1, 0, 8, 0) != before
    engine.load_weights(own.items())
    assert engine.generate(prompts, 1, 0, 8, 0) == before
    with pytest.raises(KeyError, match=r"no\.such\.weight"):
        engine.load_weights([("no.such.weight", torch.zeros(1))])


def test_too_long_a_prompt_is_refused(encoder, messages, monkeypatch):
    monkeypatch.setattr(encoder, "max_length", 20)
    with pytest.raises(ValueError, match=r"data\.max_prompt_length=20"):
        encoder.encode(messages[0])


@pytest.mark.parametrize("lengths", [[90, 90, 90, 90], [90, 91, 90, 92], [4, 4], [1]])
def test_ragged_position_ids_survive_a_split(lengths):
    from verl.utils.tensordict_utils import chunk_tensordict

    from recipes.verl_cpu.position_ids import maybe_fix_3d_position_ids

    samples = [torch.arange(4 * length).view(4, length) + 1000 * i for i, length in enumerate(lengths)]
    data = TensorDict(
        {"position_ids": torch.nested.as_nested_tensor(samples, layout=torch.jagged)}, batch_size=len(samples)
    )
    maybe_fix_3d_position_ids(data)
    chunks = chunk_tensordict(data, len(samples))
    for chunk, sample in zip(chunks, samples, strict=True):
        assert torch.equal(chunk["position_ids"].values(), sample)


def test_a_packed_batchs_log_probabilities_are_verls():
    from verl.utils.torch_functional import logprobs_from_logits

    import recipes.verl_cpu.log_probs  # noqa: F401  takes the place of the row-wise version

    logits, labels = torch.randn(50, 30, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 30
    rows = torch.stack(
        [row[label] - torch.logsumexp(row, -1) for row, label in zip(logits, labels, strict=True)]
    )
    assert torch.allclose(logprobs_from_logits(logits, labels), rows, atol=1e-6)


def test_another_verl_is_refused():
    import subprocess
    import sys

    code = "import importlib.metadata as m; m.version = lambda name: '0.9.2'; import recipes.verl_cpu"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "written for the internals of verl 0.9.1, and 0.9.2 is installed" in ran.stderr


def test_every_server_answers_its_share(monkeypatch):
    from recipes.verl_cpu import agent_loop

    class Server:
        def __init__(self) -> None:
            self.seen: list[int] = []
            self.answer = types.SimpleNamespace(remote=lambda batch: self.seen.extend(batch["row"].tolist()))

    monkeypatch.setattr(agent_loop.ray, "get", lambda pending: pending)
    manager = object.__new__(agent_loop.StepAgentLoopManager)
    manager.servers = [Server() for _ in range(3)]
    manager.generate_sequences(TensorDict({"row": torch.arange(5)}, batch_size=5))
    assert [server.seen for server in manager.servers] == [[0, 1], [2, 3], [4]]
    manager.servers = [Server() for _ in range(3)]
    manager.generate_sequences(TensorDict({"row": torch.arange(2)}, batch_size=2))
    assert [server.seen for server in manager.servers] == [[0], [1], []]
