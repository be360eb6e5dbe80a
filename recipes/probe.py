"""Before GRPO: can this start checkpoint learn anything from these rows? `python -m recipes.probe RUN_DIR`.

The start checkpoint answers a sample of the RL rows several times, as the rollouts will. Groups whose answers
are all right or all wrong have no advantages: where nearly all are, GRPO is refused. The answering is done in
a child process, so that verl finds the GPU's memory free.

    probe.json  pass@1, pass@4, pass@8 and the shares of groups, in the run directory
"""

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from data_prep.atomic import read_jsonl, write_json
from data_prep.errors import UserError
from data_prep.prompts import prompt_of_set
from data_prep.rows import Row
from recipes import reward_settings
from recipes.run_dir import RunDir
from recipes.stages import checkpoint_path
from recipes.verl_process import die_with_parent

PASSES = (1, 4, 8)


def probe(run: RunDir) -> dict[str, Any] | None:
    """The result of the probe, taken now or by an earlier attempt; None where `grpo.probe.rows` is 0.

    Raises:
        UserError: the checkpoint could not answer.
    """
    asked = run.config.grpo.probe.rows
    if not asked:
        return None
    found = stored(run)
    if found is None or found["rows_asked"] != asked:
        print(f"GRPO: probing the start checkpoint on {asked} rows", flush=True)
        command = [sys.executable, "-m", "recipes.probe", str(run.path)]
        status = subprocess.run(command, preexec_fn=die_with_parent, check=False).returncode
        found = stored(run)
        if status or found is None:
            raise UserError(
                f"the probe of the start checkpoint ended with status {status}; what it said stands above. "
                "grpo.probe.rows=0 leaves it out."
            )
    print(f"GRPO: {words(found)}", flush=True)
    return found


def stored(run: RunDir) -> dict[str, Any] | None:
    """The result of a finished probe."""
    path = run.path / "probe.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def refuse_flat(found: dict[str, Any], most: float) -> None:
    """Return when enough groups can be expected to differ.

    Raises:
        UserError: more than the share `most` of groups would be flat; the message says what to do.
    """
    if found["flat"] <= most:
        return
    way_out = (
        "Almost no answer is right: train SFT longer (sft.epochs, sft.max_steps), take easier rows "
        "(data.categories), or sample more (grpo.temperature, grpo.group_size)."
        if found["all_wrong"] >= found["all_right"]
        else "Almost every answer is right: take harder rows (data.categories) or raise grpo.temperature."
    )
    raise UserError(
        f"GRPO would learn next to nothing from this start. {words(found)}, more than {most:.0%} together "
        f"(grpo.probe.max_flat_share), and a group without a difference has no advantage. {way_out} "
        "grpo.probe.max_flat_share=1 starts all the same."
    )


def words(found: dict[str, Any]) -> str:
    passes = ", ".join(f"pass@{k} {found[f'pass_at_{k}']:.2f}" for k in PASSES)
    return (
        f"{passes} on {found['rows']} rows; of groups of {found['group_size']}, {found['all_wrong']:.0%} are "
        f"all wrong and {found['all_right']:.0%} all right"
    )


def measure(run: RunDir) -> dict[str, Any]:
    """Answer the sample with the start checkpoint in this process; the keys are those of probe.json."""
    from recipes.decoding import Decoder, Pictures
    from recipes.engines.answers import batches
    from recipes.evaluate import choose_rows
    from recipes.progress import StepProgress
    from recipes.scores import predict

    config, prep = run.config, run.inputs["prep"]
    most, group = config.grpo.probe.rows, config.grpo.group_size
    each = max(*PASSES, group)
    source = prep.path / "rows" / "rl.jsonl"
    rows = choose_rows(map(Row.from_json, read_jsonl(source)), most, config.seed)
    prompt, pictures = prompt_of_set(prep.config), Pictures(prep.path / "images", blank=False)
    options = reward_settings.options(config.reward)
    start = checkpoint_path(run, "sft")
    decoder = Decoder(
        start, config.model, config.grpo.temperature, config.model.max_response_tokens, config.seed
    )
    # The id seeds the sampling, so every answer to a row needs one of its own.
    copies = [replace(row, id=f"{row.id}#{number}") for row in rows for number in range(each)]
    answers: dict[str, list[dict[str, Any]]] = {}
    with StepProgress("probe", len(copies)) as progress:
        done = 0
        for batch in batches(copies, config.model.eval_batch_size, config.model):
            completions = decoder.answer(batch, [pictures.of(row) for row in batch], prompt)
            for row, completion in zip(batch, completions, strict=True):
                record = predict(row, *completion, prompt.format, options)
                answers.setdefault(row.id.rpartition("#")[0], []).append(record)
            progress.update(done := done + len(batch))
    return {
        "rows": len(rows),
        "rows_asked": most,
        "answers": len(copies),
        "temperature": config.grpo.temperature,
        "start": start,
        **shares([[record["accuracy"] for record in found] for found in answers.values()], group),
        "format": sum(r["format"] for found in answers.values() for r in found) / len(copies),
    }


def shares(accuracies: Sequence[Sequence[float]], group: int) -> dict[str, Any]:
    """What `n` answers a row tell of one answer, of several, and of groups of `group`, without bias.

    `accuracies` holds n >= `group` values in [0, 1] a row; half and more counts as right for pass@k. A group
    is all wrong (right) when every accuracy in it is 0 (1), and flat when all are equal.
    """
    found: dict[str, Any] = {"group_size": group}
    for k in PASSES:
        found[f"pass_at_{k}"] = _mean(
            [pass_at_k(len(row), sum(a >= 0.5 for a in row), k) for row in accuracies]
        )
    for name, value in (("all_wrong", 0.0), ("all_right", 1.0)):
        found[name] = _mean([_all_drawn(len(row), list(row).count(value), group) for row in accuracies])
    found["flat"] = _mean(
        [sum(_all_drawn(len(row), same, group) for same in Counter(row).values()) for row in accuracies]
    )
    return found


def pass_at_k(n: int, right: int, k: int) -> float:
    """The chance that one of `k` answers drawn from `n`, of which `right` are right, is right.

    The unbiased estimator of Chen et al. 2021 (arXiv:2107.03374).
    """
    return 1 - _all_drawn(n, n - right, k)


def _all_drawn(n: int, of_kind: int, k: int) -> float:
    """The chance that `k` of `n` drawn without putting back are all among `of_kind`."""
    return math.comb(of_kind, k) / math.comb(n, k)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def main(folder: str) -> int:
    run = RunDir(Path(folder))
    try:
        write_json(run.path / "probe.json", measure(run))
    except UserError as error:
        print(f"probe: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
