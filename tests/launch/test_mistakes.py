"""A newcomer's mistakes: each ends with status 2 and one clear sentence that names the way out."""

import pytest

from launch import machine
from launch.cli import main
from launch.compose import compose
from launch.pipeline import stages_of

TINY = ("recipe=imagination_cot", "scale=tiny")
MONOSR = ("recipe=monosr", "scale=tiny")
PAPER = ("recipe=imagination_cot",)

MISTAKES = {
    # words after `launch` -> what the message must hold
    ("prep", "recipe=monosr"): "data.root=the folder that holds Omni3D/",
    ("prep", "recipe=monosr", "data.root=."): "has no folder Omni3D/",
    ("prep", *MONOSR, "data.sources=[KITI]"): "did you mean KITTI?",
    ("prep", *MONOSR, "data.min_area=3"): "did you mean data.observability.min_area?",
    ("prep", *MONOSR, "data.observability.max_truncation=3"): "must lie between 0 and 1",
    ("prep", *MONOSR, "prompt=imagination_cot"): "add prompt=answer_only",
    ("prep", *MONOSR, "teacher=oracle"): "does not teach MonoSR",
    ("stf",): "did you mean sft?",
    ("train",): "choose one of list, prep, sft",
    ("recipe=imagination_cot", "sft"): "the command comes first",
    ("list", "recipe=imagination_cot"): "takes nothing after it",
    ("sft",): "add recipe=imagination_cot or ",
    ("sft", "recipe=imaginationcot"): "did you mean imagination_cot?",
    ("sft", "recipes=imagination_cot"): "did you mean recipe?",
    ("sft", "imagination_cot"): "did you mean recipe=imagination_cot?",
    ("sft", *PAPER, "scale=small"): "choose one of paper, tiny",
    ("sft", *TINY, "--dry-run"): "as in dry_run=VALUE",
    ("sft", *TINY, "-m", "seed=1,2"): "give the command once for every value",
    ("sft", *TINY, "sft.lrr=1e-5"): "there is no key sft.lrr: did you mean sft.lr?",
    ("sft", *TINY, "sft.learning_rate=1e-5"): "did you mean sft.lr?",
    ("sft", *TINY, "lr=1e-5"): "did you mean sft.lr or grpo.lr or ",
    ("sft", *TINY, "modle=qwen3_vl_4b"): "did you mean model?",
    ("grpo", *TINY, "cluster.nodes=2"): "there is no key cluster.nodes: cluster=slurm has it",
    ("grpo", *TINY, "cluster.name=slurm"): "take cluster=NAME",
    ("serve", *TINY, "cluster=slurm"): "serve answers in this terminal",
    ("sft", *TINY, "model=qwen3_vl_4"): "did you mean qwen3_vl_4b?",
    ("sft", *TINY, "+sft.momentum=0.9"): "there is no key sft.momentum",
    ("sft", *TINY, "+sft.lr=1e-5"): "write sft.lr=1e-5 without the '+'",
    ("sft", *TINY, "~sft.lr"): "a key cannot be taken away",
    ("sft", *TINY, "sft.lr=fast"): "sft.lr takes a number",
    ("sft", *TINY, "sft.batch_size=6.5"): "sft.batch_size takes a whole number",
    ("sft", *TINY, "sft.lr=null"): "sft.lr takes a value, not null",
    ("sft", *TINY, "sft.lr=1e-5,3e-5"): "one value a key",
    ("sft", *TINY, "dry_run=maybe"): "dry_run takes true or false",
    ("prep", *TINY, "data.subsets=cvusa"): "data.subsets takes a list: data.subsets=[cvusa]",
    ("prep", *PAPER, "data.synthetic.seed=1"): "data.synthetic has no keys of its own",
    ("sft", *TINY, "model.path=[a"): "quote a value",
    ("pipeline", *TINY, "run_dir=elsewhere"): "use runs_dir=",
    # found by the preflight
    ("prep", *PAPER): "data.root is not set",
    ("prep", *PAPER, "data.root=nowhere", "teacher.path=nowhere.jsonl"): "data.root=nowhere does not exist",
    (
        "prep",
        *PAPER,
        "data.root=.",
        "teacher.path=nowhere.jsonl",
    ): "teacher.path=nowhere.jsonl does not exist",
    ("prep", *PAPER, "data.root=.", "teacher=oracle"): "teacher=oracle knows only the synthetic release",
    ("prep", *TINY, "data.tasks=[g2s,s2s]"): "data.tasks=s2s is unknown: did you mean s2g?",
    ("prep", *TINY, "data.categories=roof"): "data.categories=[roof]",
    ("prep", *TINY, "prompt.file=nowhere.txt"): "prompt.file=nowhere.txt does not exist",
    ("sft", *PAPER): "add scale=tiny for the same recipe on a CPU",
    ("sft", *TINY, "model.build.pretraining.world=monosrr"): (
        "model.build.pretraining.world=monosrr is unknown: did you mean monosr?"
    ),
    ("sft", *TINY, "model.build.pretraining.side=320"): "does nothing here: pictures of world=cvsbench",
    ("sft", *TINY, "sft.shard=zero5"): "sft.shard=zero5 is unknown",
    ("sft", *TINY, "sft.batch_size=100"): "make it a multiple of 64",
    ("sft", *TINY, "sft.max_steps=0"): "at least 1",
    ("sft", *TINY, "logger=wanbd"): "did you mean wandb?",
    ("grpo", *TINY, "grpo.group_size=1"): "every advantage is zero",
    ("grpo", *TINY, "grpo.batch_size=60"): "no multiple of grpo.mini_batch_size=16",
    ("grpo", *TINY, "model.grpo_micro_batch_size=48"): "no multiple of model.grpo_micro_batch_size=48",
    ("grpo", *TINY, "grpo.temperature=0"): "must be above 0",
    ("grpo", *TINY, "reward.format_weight=1.5"): "reward.format_weight must be a number in [0, 1], got 1.5",
    ("grpo", *TINY, "reward.tolerance=10"): "reward.tolerance must be a number in [0, 1], got 10",
    ("eval", *TINY, "reward.iou_threshold=50"): "reward.iou_threshold must be a number in [0, 1], got 50",
    ("eval", *TINY, "eval.rotate_options=4"): "eval.rotate_options=4 is too large",
    ("grpo", *TINY, "reward.format_mode=strict"): "reward.format_mode must be one of answer, full",
    ("grpo", *TINY, "reward.path=nowhere.py"): "reward.path=nowhere.py cannot be read as Python",
    ("grpo", *TINY, "grpo.monitors.stop_on=[letters]"): "did you mean letter_collapse?",
    ("grpo", *TINY, "grpo.monitors.window=0"): "at least 1",
    ("grpo", *TINY, "grpo.probe.rows=-1"): "at least 0",
    ("grpo", *TINY, "grpo.probe.max_flat_share=90"): "between 0 and 1",
    (
        "grpo",
        *TINY,
        'grpo.overrides=["actor_rollout_ref.actor.freeze_vision_tower=true"]',
    ): "set model.freeze_vision=true",
    ("sft", *TINY, "sft.take=best"): "sft.take=best has nothing to choose by: set sft.validation_rows=",
    ("grpo", *TINY, "grpo.take=newest"): "grpo.take=newest is unknown",
    ("sft", *TINY, "sft.keep_checkpoints=0"): "at least 1",
    ("sft", *TINY, "model.lora_exclude='*.visual'"): "is no regular expression",
    ("sft", *TINY, "model.lora_targets=[]", "sft.lora.rank=8"): "so lora.rank trains nothing",
    ("sft", *TINY, "to=out"): "to= says where launch export copies a model",
    ("export", *TINY): "export wants a place",
    ("export", *TINY, "to=out"): "run launch grpo with the same options first",
    (
        "eval",
        *TINY,
        "eval.engine=openai",
        "eval.endpoint.base_url=http://me:secret99@host/v1",
    ): "eval.endpoint.base_url holds a password",
    ("grpo", *TINY, 'grpo.overrides=["trainer.wandb_token=abc"]'): "seems to hold a secret",
    ("eval", *TINY, "eval.checkpoint=gpro"): "neither one of base, sft, grpo, endpoint nor the folder",
    ("eval", *TINY, "eval.engine=vllm"): "eval.engine=vllm is unknown: choose one of transformers, openai",
    ("eval", *TINY, "eval.serve=true"): "starts a server that nothing would ask: add eval.engine=openai",
    ("eval", *TINY, "eval.checkpoint=endpoint"): "is the model of a server: add eval.engine=openai",
    (
        "eval",
        *TINY,
        "eval.engine=openai",
        "eval.checkpoint=endpoint",
    ): "wants the name of the model: eval.endpoint.model=",
    (
        "eval",
        *TINY,
        "eval.engine=openai",
        "eval.endpoint.base_url=localhost",
    ): "eval.endpoint.base_url=localhost is no address",
    (
        "eval",
        *TINY,
        "eval.engine=openai",
        "eval.endpoint.api_key_env=NO_SUCH_KEY",
    ): "the environment variable NO_SUCH_KEY holds no key for the server",
    ("eval", *TINY, "eval.endpoint.concurrency=0"): "at least 1",
    ("serve", *TINY, "vllm.memory=2"): "between 0 and 1",
    ("serve", *TINY, "eval.checkpoint=endpoint"): "has no weights here",
    ("report", *TINY): "nothing is evaluated yet",
}


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_a_mistake_ends_in_one_sentence(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("launch.machine.gpus", list)
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert MISTAKES[words] in err
    assert err.startswith("launch: ")
    assert "Traceback" not in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []  # nothing was started or written


def test_a_root_one_folder_off_is_told(tmp_path, monkeypatch, capsys):
    for subset in ("cvusa", "fov"):
        (tmp_path / "CVSBench" / subset / "g2s").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "teacher.jsonl").touch()
    for wrong in (tmp_path, tmp_path / "CVSBench" / "fov"):
        assert main(["prep", *PAPER, f"data.root={wrong}", "teacher.path=teacher.jsonl"]) == 2
        assert f"did you mean data.root={tmp_path / 'CVSBench'}?" in capsys.readouterr().err


def test_a_run_directory_of_another_configuration_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "mine"
    other.mkdir()
    (other / "config.yaml").write_text("seed: 7\nrecipe_name: imagination_cot\n")
    assert main(["prep", *TINY, f"run_dir={other}"]) == 2
    assert "was made by another configuration" in (err := capsys.readouterr().err)
    assert "seed was 7, now 0" in err


def test_a_folder_of_other_files_is_no_run_directory(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").touch()
    assert main(["prep", *TINY, "run_dir=photos"]) == 2
    assert "photos holds files but is no run directory" in capsys.readouterr().err


def test_too_little_disk_is_found_before_the_start(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("launch.machine.free_disk", lambda _: 0.01)
    assert main(["pipeline", *TINY]) == 2
    assert "has 0.0 GiB free, and prep, base, eval, sft, grpo may write" in capsys.readouterr().err
    # A stage that has begun holds much of its space already, and must be able to go on.
    stage = stages_of("prep", compose(TINY))[0]
    stage.open()
    monkeypatch.setattr("launch.pipeline.run_stage", lambda *_: 7)
    assert main(["prep", *TINY]) == 7


def test_a_file_in_the_place_of_runs_dir_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").touch()
    assert main(["prep", *TINY]) == 2
    assert "runs cannot be written to: set runs_dir=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("have", "options", "message"),
    [
        (2, (), "cluster.gpus=8, but this machine shows 2: set cluster.gpus=2"),
        (8, ("cluster.gpus=3",), "x grpo.group_size=4 = 64 answers do not divide over 3 GPUs"),
        (8, ("grpo.tensor_parallel=3",), "cluster.gpus=8 is no multiple of grpo.tensor_parallel=3"),
        (8, ("model.grpo_micro_batch_size=3",), "take one of 1, 2."),
        (8, (), "GRPO on GPUs needs vllm"),
        (8, (), "sft.shard=zero2 needs deepspeed"),
    ],
)
def test_gpus_that_do_not_fit_the_batches_are_told(have, options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("launch.machine.gpus", lambda: [machine.Gpu("A100", 80.0)] * have)
    monkeypatch.setattr("launch.machine.version", {"verl": "0.9.1"}.get)
    assert main(["pipeline", *PAPER, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def score(text): return 1.0\n", "defines no function compute_score"),
        ("def compute_score(:\n", "cannot be read as Python"),
    ],
)
def test_a_reward_of_the_users_is_looked_at_and_not_run(code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(f"raise SystemExit\n{code}")
    assert main(["grpo", *TINY, "reward.path=mine.py"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("found", [None, "0.8.0"])
def test_another_verl_is_told(found, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("launch.machine.version", {"verl": found}.get)
    assert main(["grpo", *TINY]) == 2
    assert "pip install verl==0.9.1" in capsys.readouterr().err
