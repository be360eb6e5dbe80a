"""Engines answer rows: `transformers` in this process, `openai` through any OpenAI-compatible server.

An engine is a function that takes a `Job`, writes a record for every row that it answers, and returns why the
others have none. It is imported when it is wanted: only `transformers` needs torch.
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.prompts import PromptSpec
from data_prep.rows import Row
from recipes.engines.answers import Completion

ENGINES = ("transformers", "openai")


@dataclass(frozen=True)
class Job:
    """Rows to answer.

    - `config`: of the evaluation (`model` and `eval` are read); `seed` is that of the prepared set.
    - `checkpoint`: folder or hub id.
    - `images`: the folder of the rows' picture paths.
    - `rows`: those without an answer. They may be streamed; an engine may also take them all at once.
    - `log`: the JSON-lines file that records are appended to, each on disk before the next is begun.
    - `record`: what is written of an answer.
    - `on_records`: told of records once they are written, with a word on the engine's state.
    - `on_engine`: told once what answers: `engine` (name and version) and `served_model`.
    """

    config: DictConfig
    seed: int
    checkpoint: str
    prompt: PromptSpec
    images: Path
    rows: Iterable[Row]
    log: Path
    record: Callable[[Row, Completion], dict[str, Any]]
    on_records: Callable[[Sequence[dict[str, Any]], str], None]
    on_engine: Callable[[dict[str, str]], None]


def answer(job: Job) -> dict[str, str]:
    """Answer the job's rows with the engine of its configuration; returns reasons by id of the unanswered.

    Raises:
        UserError: the engine can answer nothing at all; the message says what to do.
    """
    return importlib.import_module(f"recipes.engines.{job.config.eval.engine}").answer(job)
