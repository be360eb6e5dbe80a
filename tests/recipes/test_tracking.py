import sys
import types

import pytest

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from recipes import tracking
from recipes.run_dir import RunDir


class StubRun:
    def __init__(self, settings):
        self.settings, self.records, self.defined, self.exit_codes = settings, [], [], []

    def define_metric(self, name, step_metric):
        self.defined.append((name, step_metric))

    def log(self, record):
        self.records.append(record)

    def finish(self, exit_code=None):
        self.exit_codes.append(exit_code)


@pytest.fixture
def wandb(monkeypatch):
    """A module in wandb's place that keeps what it is told."""
    stub = types.ModuleType("wandb")
    stub.Error = type("Error", (Exception,), {})
    stub.runs = []

    def init(**settings):
        stub.runs.append(StubRun(settings))
        return stub.runs[-1]

    stub.init = init
    monkeypatch.setitem(sys.modules, "wandb", stub)
    return stub


@pytest.fixture(autouse=True)
def no_key(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def stage(tmp_path, logger="wandb"):
    return RunDir.open(tmp_path / "family" / "sft-1", {"logger": logger, "sft": {"lr": 1e-3}}, {})


def test_no_logger_writes_the_file_alone(tmp_path, wandb):
    run = stage(tmp_path, logger="none")
    with tracking.metrics_log(run) as log:
        log.append({"step": 1, "loss": 2.0})
    assert run.metrics() == [{"step": 1, "loss": 2.0}]
    assert wandb.runs == []
    assert not (run.path / "wandb_id").exists()


def test_file_and_copy_hold_the_same_records(tmp_path, wandb):
    run = stage(tmp_path)
    with tracking.metrics_log(run) as log:
        log.append({"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0})
    [copy] = wandb.runs
    assert copy.records == list(read_jsonl(run.path / "metrics.jsonl")) == run.metrics()
    assert copy.defined == [("*", "step")]
    assert copy.exit_codes == [0]
    assert copy.settings["config"] == {"logger": "wandb", "sft": {"lr": 1e-3}}
    assert copy.settings["name"] == "family/sft-1"
    assert copy.settings["dir"] == str(run.path)


def test_started_again_it_goes_on_in_the_same_run(tmp_path, wandb):
    for step in (1, 2):
        with tracking.metrics_log(stage(tmp_path)) as log:
            log.append({"step": step})
    first, second = wandb.runs
    assert first.settings["id"] == second.settings["id"]
    assert second.settings["resume"] == "allow"


def test_a_failed_stage_is_marked_failed(tmp_path, wandb):
    def fail():
        with tracking.metrics_log(stage(tmp_path)) as log:
            log.append({"step": 1})
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()
    assert wandb.runs[0].exit_codes == [1]


@pytest.mark.parametrize(
    ("variables", "netrc", "mode"),
    [
        ({}, None, "offline"),
        ({"WANDB_API_KEY": "k"}, None, "online"),
        ({}, "machine api.wandb.ai login user password k\n", "online"),
        ({}, "machine elsewhere.example login user password k\n", "offline"),
        ({"WANDB_BASE_URL": "https://w.example:8080"}, "machine w.example login u password k\n", "online"),
        ({"WANDB_API_KEY": "k", "WANDB_MODE": "disabled"}, None, "disabled"),
    ],
)
def test_offline_without_a_key(tmp_path, wandb, monkeypatch, capsys, variables, netrc, mode):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if netrc is not None:
        (tmp_path / "netrc").write_text(netrc)
    run = stage(tmp_path)
    tracking.metrics_log(run).close()
    assert wandb.runs[0].settings["mode"] == mode
    # Offline, the command that sends the copy is told.
    command = f"wandb sync {run.path}/wandb/offline-run-*"
    assert (command in capsys.readouterr().out) == (mode == "offline")


def test_a_child_process_is_told_the_same_run(tmp_path, wandb):
    run = stage(tmp_path)
    variables = tracking.environment(run)
    tracking.metrics_log(run).close()
    assert variables["WANDB_RUN_ID"] == wandb.runs[0].settings["id"]
    assert variables["WANDB_RUN_ID"] == (run.path / "wandb_id").read_text().strip()
    assert variables["WANDB_MODE"] == "offline"
    assert variables["WANDB_RESUME"] == "allow"


def test_the_key_is_written_nowhere(tmp_path, wandb, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "very-secret")
    run = stage(tmp_path)
    tracking.metrics_log(run).close()
    assert "very-secret" not in str(wandb.runs[0].settings)
    assert all("very-secret" not in file.read_text() for file in run.path.iterdir())


def test_missing_wandb_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"pip install 'spatial-recipes\[wandb\]'"):
        tracking.metrics_log(stage(tmp_path))


def test_refusal_names_the_way_out(tmp_path, wandb):
    def refuse(**_):
        raise wandb.Error("invalid key")

    wandb.init = refuse
    with pytest.raises(UserError, match=r"invalid key.*WANDB_MODE=offline"):
        tracking.metrics_log(stage(tmp_path))


def test_unreadable_netrc_is_named(tmp_path, wandb):
    (tmp_path / "netrc").write_text("not a netrc file")
    with pytest.raises(UserError, match="netrc cannot be read"):
        tracking.metrics_log(stage(tmp_path))


def test_unknown_logger_is_refused(tmp_path):
    with pytest.raises(UserError, match="logger=tensorboard is unknown"):
        tracking.metrics_log(stage(tmp_path, logger="tensorboard"))
