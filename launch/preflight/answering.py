"""Who answers the test rows: a model in this process, vLLM that is started for it, or a server."""

import os
from collections.abc import Iterator

from omegaconf import DictConfig

from recipes import serve
from recipes.stages import ENDPOINT


def answers_here(config: DictConfig) -> bool:
    return config.eval.engine == "transformers" or config.eval.serve


def engine(config: DictConfig, names: set[str]) -> Iterator[str]:
    evaluation = config.eval
    endpoint = evaluation.endpoint
    if (evaluation.serve or "serve" in names) and (missing := serve.lacks()):
        yield missing
    if names & {"serve", "parity"} and evaluation.checkpoint == ENDPOINT:
        yield "eval.checkpoint=endpoint has no weights here: give base, sft, grpo or the folder of one."
    if "eval" in names and evaluation.engine != "openai":
        if evaluation.serve:
            yield "eval.serve=true starts a server that nothing would ask: add eval.engine=openai."
        if evaluation.checkpoint == ENDPOINT:
            yield "eval.checkpoint=endpoint is the model of a server: add eval.engine=openai."
    if not names & {"eval", "parity"} or ("parity" not in names and evaluation.engine != "openai"):
        return
    if evaluation.serve:
        if endpoint.model is not None:
            yield f"eval.endpoint.model={endpoint.model} is of another server: drop it, or eval.serve=true."
        return
    if evaluation.checkpoint == ENDPOINT and endpoint.model is None:
        yield "eval.checkpoint=endpoint wants the name of the model: eval.endpoint.model=."
    if not str(endpoint.base_url).startswith(("http://", "https://")):
        yield f"eval.endpoint.base_url={endpoint.base_url} is no address: it begins with http:// or https://."
    if endpoint.api_key_env is not None and not os.environ.get(endpoint.api_key_env):
        yield (
            f"the environment variable {endpoint.api_key_env} holds no key for the server: set it, name "
            "another with eval.endpoint.api_key_env=, or set that to null for a server that wants none."
        )
