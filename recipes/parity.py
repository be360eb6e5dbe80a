"""Whether two engines do the same: `launch parity` asks both the same rows and compares what they make of it.

The model in this process answers first, then the server; both greedily. Compared are, for every row: the ids
of the prompt (against the server's /tokenize, where it offers one), the tokens of its pictures (by
arithmetic, by the processor, and as the server counts them), and the answers.

    parity.json  the counts, and every row with what differs
"""

import asyncio
import dataclasses
import gc
from collections.abc import Sequence
from typing import Any

import torch
from omegaconf import DictConfig

from data_prep.atomic import read_jsonl, write_json
from data_prep.endpoint.address import Endpoint
from data_prep.endpoint.faults import Fault
from data_prep.endpoint.limits import Counts
from data_prep.endpoint.sender import Sender
from data_prep.endpoint.wire import Answer
from data_prep.errors import UserError
from data_prep.prompts import PromptSpec
from data_prep.rows import Row
from recipes import reward_settings
from recipes.decoding import Decoder, Pictures
from recipes.engines.answers import Completion, batches
from recipes.engines.openai import Chat, completion_of, endpoint_of
from recipes.engines.server import Served, identify, token_ids
from recipes.evaluate import choose_rows, prompt_of
from recipes.length_budget import image_budget
from recipes.run_dir import RunDir
from recipes.scores import predict
from recipes.serve import reachable
from recipes.stages import checkpoint_path

ROWS = 32
GREEDY = 0.0


@dataclasses.dataclass(frozen=True)
class Ours:
    """What this process makes of a row: the prompt's ids, pictures expanded, and the answer.

    `arithmetic` are the tokens of each picture by `data_prep.tokens`.
    """

    ids: list[int]
    arithmetic: list[int]
    completion: Completion


@dataclasses.dataclass(frozen=True)
class Theirs:
    """What the server makes of a row: ids where it gives them, and its answer or why there is none."""

    ids: list[int] | None
    answer: Answer | Fault


def run(run: RunDir) -> int:
    """Compare; the status is 1 where ids or pictures differ, or nothing could be compared.

    Raises:
        UserError: no test rows, no checkpoint, or no server.
    """
    config, prep = run.config, run.inputs["prep"]
    source = prep.path / "rows" / "test.jsonl"
    rows = choose_rows(map(Row.from_json, read_jsonl(source)), ROWS, prep.config.seed)
    if not rows:
        raise UserError(f"{source} has no test rows; check data.subsets, data.tasks and data.categories.")
    prompt = prompt_of(run)
    checkpoint = checkpoint_path(run, config.eval.checkpoint)
    decoder = Decoder(checkpoint, config.model, GREEDY, config.eval.max_new_tokens, prep.config.seed)
    image_token = decoder.processor.tokenizer.convert_tokens_to_ids(decoder.processor.image_token)
    pictures = Pictures(prep.path / "images", config.eval.blank)
    ours = _ask_ours(decoder, rows, pictures, prompt, config.model)
    del decoder  # the server may want the same GPU
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    with reachable(config, checkpoint, run.path / "vllm.log") as reached:
        endpoint = endpoint_of(reached.eval.endpoint)
        served = identify(endpoint)
        named = dataclasses.replace(endpoint, model=served.model)
        theirs = asyncio.run(_ask_theirs(named, rows, prompt, prep, reached))
    reward = reward_settings.options(config.reward)
    compared = [compare(row, ours[row.id], theirs[row.id], image_token) for row in rows]
    for row, record in zip(rows, compared, strict=True):
        if record["same_text"] is not None:
            texts = (ours[row.id].completion, completion_of(theirs[row.id].answer))  # type: ignore[arg-type]
            parsed = [predict(row, *text, prompt.format, reward)["parsed"] for text in texts]
            record["same_answer"] = parsed[0] == parsed[1]
    found = summary(compared)
    write_json(run.path / "parity.json", {**found, **_about(served, checkpoint, config), "rows": compared})
    for line in table(compared, found):
        print(line)
    return 0 if found["holds"] else 1


def compare(row: Row, ours: Ours, theirs: Theirs, image_token: int) -> dict[str, Any]:
    """One row's record in parity.json. What the server does not tell is None, never taken for equal."""
    text, pictures = collapsed(ours.ids, image_token)
    record: dict[str, Any] = {
        "id": row.id,
        "same_ids": None,
        "first_difference": None,
        "prompt_tokens": [len(ours.ids), None],
        "picture_tokens": {"arithmetic": ours.arithmetic, "transformers": pictures, "server": None},
        "same_pictures": None if pictures == ours.arithmetic else False,
        "same_text": None,
        "same_answer": None,
        "fault": None,
    }
    shown: list[int] | None = None
    words = len(text) - len(pictures)
    if theirs.ids is not None:
        own_text, own_pictures = collapsed(theirs.ids, image_token)
        record["same_ids"] = own_text == text
        record["first_difference"] = _first_difference(text, own_text)
        words = len(own_text) - len(own_pictures)
        # A server may give the prompt as it is before its pictures take their places.
        shown = None if set(own_pictures) <= {1} and pictures != own_pictures else own_pictures
    if isinstance(theirs.answer, Fault):
        return {**record, "fault": str(theirs.answer)}
    counted = theirs.answer.prompt_tokens
    total = None if counted is None else counted - words
    record["prompt_tokens"][1] = counted
    record["picture_tokens"]["server"] = total if shown is None else shown
    agree = [] if shown is None else [shown == pictures]
    agree += [] if total is None else [total == sum(pictures)]
    if agree:
        record["same_pictures"] = all(agree) and pictures == ours.arithmetic
    return {
        **record,
        "same_text": theirs.answer.text == ours.completion.text,
        "texts": [ours.completion.text, theirs.answer.text],
    }


def collapsed(ids: Sequence[int], image_token: int) -> tuple[list[int], list[int]]:
    """The ids with one placeholder a picture, and the tokens of each picture."""
    text: list[int] = []
    pictures: list[int] = []
    before = None
    for token in ids:
        if token != image_token:
            text.append(token)
        elif before == image_token:
            pictures[-1] += 1
        else:
            text.append(token)
            pictures.append(1)
        before = token
    return text, pictures


def summary(compared: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts of equal, different and uncompared rows, and whether the engines are at one.

    `holds` demands that no row failed, that none differs in ids or pictures, and that the pictures of every
    row were compared. Answers are counted, and may differ: kernels round in another order.
    """
    found: dict[str, Any] = {
        key: {
            "equal": sum(record[f"same_{key}"] is True for record in compared),
            "different": sum(record[f"same_{key}"] is False for record in compared),
            "not_compared": sum(record[f"same_{key}"] is None for record in compared),
        }
        for key in ("ids", "pictures", "text", "answer")
    }
    found["failed"] = sum(record["fault"] is not None for record in compared)
    apart = found["ids"]["different"] + found["pictures"]["different"] + found["failed"]
    found["holds"] = not apart and not found["pictures"]["not_compared"]
    return found


def table(compared: Sequence[dict[str, Any]], found: dict[str, Any]) -> list[str]:
    """A line for every row that differs in anything, then the counts."""
    lines = [f"{'row':<44}{'ids':<8}{'pictures':<10}{'text':<8}{'answer':<8}prompt tokens, here and there"]
    words = {True: "same", False: "OTHER", None: "-"}
    for record in compared:
        same = [record[f"same_{key}"] for key in ("ids", "pictures", "text", "answer")]
        if all(same):
            continue
        ids, pictures, text, answer = (words[value] for value in same)
        tokens = " and ".join("-" if n is None else str(n) for n in record["prompt_tokens"])
        lines.append(f"{record['id'][-43:]:<44}{ids:<8}{pictures:<10}{text:<8}{answer:<8}{tokens}")
        if record["fault"]:
            lines.append(f"    {record['fault']}")
    if len(lines) == 1:
        lines = ["every row is the same in everything"]
    names = {"ids": "prompt ids", "pictures": "pictures", "text": "texts", "answer": "answers"}
    for key, what in names.items():
        count = found[key]
        lines.append(
            f"{what:<12}{count['equal']} of {len(compared)} the same, {count['different']} different, "
            f"{count['not_compared']} not compared"
        )
    lines.append("The engines agree." if found["holds"] else "The engines do NOT agree.")
    return lines


def _ask_ours(
    decoder: Decoder, rows: Sequence[Row], pictures: Pictures, prompt: PromptSpec, model: DictConfig
) -> dict[str, Ours]:
    budget = image_budget(decoder.processor)
    found = {}
    for batch in batches(rows, model.eval_batch_size, model):
        shown = [pictures.of(row) for row in batch]
        completions = decoder.answer(batch, shown, prompt)
        inputs = decoder.inputs(batch, shown, prompt)
        for index, row in enumerate(batch):
            own = inputs["input_ids"][index][inputs["attention_mask"][index].bool()].tolist()
            sizes = [budget.tokens(image.width, image.height) for image in row.images]
            found[row.id] = Ours(own, sizes, completions[index])
    return found


async def _ask_theirs(
    endpoint: Endpoint, rows: Sequence[Row], prompt: PromptSpec, prep: RunDir, config: DictConfig
) -> dict[str, Theirs]:
    limits = config.eval.endpoint
    sender = Sender(endpoint, limits.concurrency, limits.timeout, limits.tries, Counts())
    own = (config.eval.blank, GREEDY, config.eval.max_new_tokens, prep.config.seed)
    chat = Chat(sender, prompt, prep.path / "images", *own)

    async def ask(row: Row) -> Theirs:
        ids = await asyncio.to_thread(token_ids, endpoint, endpoint.model, chat.messages(row))
        return Theirs(ids, await chat.ask(row))

    try:
        answers = await asyncio.gather(*(ask(row) for row in rows))
    finally:
        await sender.close()
    return {row.id: answer for row, answer in zip(rows, answers, strict=True)}


def _about(served: Served, checkpoint: str, config: DictConfig) -> dict[str, Any]:
    return {
        "checkpoint": checkpoint,
        "server": served.server,
        "served_model": served.model,
        "max_image_tokens": config.model.max_image_tokens,
        "max_new_tokens": config.eval.max_new_tokens,
    }


def _first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first place at which two lists differ; None where they are equal."""
    if one == other:
        return None
    unequal = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unequal, min(len(one), len(other)))
