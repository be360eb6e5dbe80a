"""Answers in this process: batches of rows of like length, through transformers."""

from importlib.metadata import version

from data_prep.atomic import JsonlLog
from recipes.decoding import Decoder, Pictures
from recipes.engines import Job
from recipes.engines.answers import batches


def answer(job: Job) -> dict[str, str]:
    """Answer every row; there are no failures. A batch is written as a whole.

    Raises:
        UserError: no checkpoint, or a batch that does not fit into the memory of the GPU.
    """
    config = job.config
    rows = list(job.rows)
    job.on_engine(
        {
            "engine": f"transformers {version('transformers')}, torch {version('torch')}",
            "served_model": config.model.name,
        }
    )
    pictures = Pictures(job.images, config.eval.blank)
    decoder = Decoder(
        job.checkpoint, config.model, config.eval.temperature, config.eval.max_new_tokens, job.seed
    )
    with JsonlLog(job.log) as log:
        for batch in batches(rows, config.model.eval_batch_size, config.model):
            completions = decoder.answer(batch, [pictures.of(row) for row in batch], job.prompt)
            records = [
                job.record(row, completion) for row, completion in zip(batch, completions, strict=True)
            ]
            log.append(*records)
            job.on_records(records, "")
    return {}
