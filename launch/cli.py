"""The `launch` command: read the words of the command line and hand on. Every mistake ends in one sentence.

Imports at the top stay in the standard library, so that `launch --help` answers at once.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from data_prep.errors import UserError, full_disk
from data_prep.secrets import hide_in_tracebacks, mask, refuse_typed

COMMANDS = {
    "list": "show the recipes: what each reproduces, on what, in how many hours",
    "prep": "read a release, clean its pictures, split it, write the SFT, RL and test sets",
    "sft": "fine-tune the base model on the SFT half",
    "grpo": "train the SFT model with GRPO (verl) on the RL half",
    "eval": "answer the test set with one checkpoint and score it",
    "serve": "serve one checkpoint with vLLM until Ctrl-C",
    "parity": "compare the two engines on 32 rows: prompt ids, pictures, answers",
    "pipeline": "prep, sft, grpo, the evaluations of base, SFT and SFT+RL, and the report",
    "grid": "run a grid of cells and set the results beside the paper's tables",
    "status": "show how far a run is, here or on Slurm, and what went wrong",
    "logs": "print what a run prints",
    "cancel": "end a run, or take its jobs off the queue",
    "resume": "give the command of a run again",
    "report": "write report.html from the evaluations that are finished",
    "export": "copy a trained model with its card to a folder, or to the hub: checkpoint=sft to=DIR",
    "generate": "write a release from image pairs of your own, for prep to read",
    "doctor": "show what this machine can run and what to install",
}
RUN_VERBS = ("status", "logs", "cancel", "resume")
SHORT = {
    "checkpoint": "eval.checkpoint", "engine": "eval.engine", "views": "data.views", "aux": "data.aux",
}  # fmt: skip
"""What is typed often, and the key that it stands for."""
HELP = f"""\
usage: launch COMMAND [KEY=VALUE ...]

Train and evaluate the spatial reasoning of vision-language models.

commands:
{chr(10).join(f"  {name:<9} {what}" for name, what in COMMANDS.items())}

A command runs the stages it needs first, keeps what is finished and takes up what was stopped.

  launch pipeline recipe=imagination_cot scale=tiny          the whole recipe on a laptop
  launch sft recipe=imagination_cot sft.lr=1e-5              one stage, one value changed
  launch prep recipe=structured_cot data.root=DIR check=true  audit a release
  launch grpo recipe=structured_cot dry_run=true             show everything, start nothing
  launch grid grid=cvsbench_cot scale=tiny                   the paper's tables 4 and 5 on a laptop
  launch status recipe=imagination_cot scale=tiny            how far it is; logs, cancel, resume likewise

recipe= says what, scale=paper|tiny how much, run_dir= where one stage writes. Short for longer keys:
{", ".join(f"{short}= ({key})" for short, key in SHORT.items())}. More:
  launch COMMAND --help            every key with its value
  launch COMMAND --cfg job recipe=NAME    the composed configuration
  eval "$(launch -sc install=bash)"       completion with the tab key, for this shell
"""
HYDRA_FLAGS = (
    "-h", "--help", "--hydra-help", "-c", "--cfg", "-i", "--info", "-p", "--package", "--resolve",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return the exit status.

    0: done. 2: a mistake that the user can mend, told in one sentence on stderr. Otherwise the status of
    the stage that ended it; 128 + n when signal n did.
    """
    arguments = [_in_full(word) for word in (sys.argv[1:] if argv is None else argv)]
    if argv is None:
        hide_in_tracebacks()
    try:
        refuse_typed(arguments)
        return _dispatch(arguments)
    except UserError as error:
        message = str(error)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        message = full_disk(error)
        if message is None:
            raise
    print(mask(f"launch: {message}"), file=sys.stderr)
    return 2


def _in_full(word: str) -> str:
    """`checkpoint=sft` as `eval.checkpoint=sft`; any other word as it is."""
    name, equals, value = word.partition("=")
    return f"{SHORT[name]}={value}" if equals and name in SHORT else word


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    command, rest = arguments[0], arguments[1:]
    if command in ("-sc", "--shell-completion"):
        from launch.hydra_verbs import complete

        return complete(rest, tuple(COMMANDS))
    if command not in COMMANDS:
        raise UserError(_unknown_command(command))
    if command in ("list", "doctor"):
        if rest:
            raise UserError(f"launch {command} takes nothing after it, and was given {' '.join(rest)}.")
        return _plain(command)()
    if command == "grid":
        rest, config_dir = take_config_dir(rest)
        from launch.grid import main as grid

        return grid(rest, config_dir, arguments)
    if command in RUN_VERBS:
        rest, config_dir = take_config_dir(rest)
        from launch.runs import main as look_after

        return look_after(command, rest, config_dir)
    return _configured(command, rest, arguments)


def _plain(command: str) -> Callable[[], int]:
    if command == "list":
        from launch.catalogue import show

        return show
    from launch.doctor import report

    return report


def _configured(command: str, rest: list[str], asked: list[str]) -> int:
    rest, config_dir = take_config_dir(rest)
    flags = [word for word in rest if word.startswith("-")]
    unknown = [flag for flag in flags if flag.split("=")[0] not in HYDRA_FLAGS]
    if unknown:
        raise UserError(_unknown_flag(unknown[0]))
    if flags:
        from launch.hydra_verbs import hand_over

        return hand_over(command, COMMANDS[command], rest, config_dir)

    from launch.compose import compose

    config = compose(rest, config_dir)
    from launch.pipeline import execute

    return execute(command, config, asked)


def take_config_dir(rest: list[str]) -> tuple[list[str], Path | None]:
    """Split off `--config-dir DIR`, a configuration tree of the user's own."""
    for index, word in enumerate(rest):
        name, _, value = word.partition("=")
        if name in ("-cd", "--config-dir"):
            after = rest[index + 1 :] if value else rest[index + 2 :]
            folder = Path(value or (rest[index + 1] if index + 1 < len(rest) else ""))
            if not folder.is_dir() or folder == Path():
                raise UserError(f"{name} wants a folder with recipe/NAME.yaml in it; {folder} is none.")
            return [*rest[:index], *after], folder
    return rest, None


def _unknown_command(word: str) -> str:
    from difflib import get_close_matches

    if "=" in word:
        return f"the command comes first: launch COMMAND {word} (one of {', '.join(COMMANDS)})."
    close = get_close_matches(word, COMMANDS, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(COMMANDS)}."
    return f"there is no command {word!r}: {hint}"


def _unknown_flag(flag: str) -> str:
    name, _, value = flag.lstrip("-").partition("=")
    if name in ("multirun", "m"):
        return "--multirun is not offered: give the command once for every value."
    example = f"{name.replace('-', '_')}={value or 'VALUE'}"
    return f"there is no flag {flag}: options are written without dashes, as in {example}."
