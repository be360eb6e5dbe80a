"""A text that is kept or shown holds no key, and a command line that holds one is refused."""

import pytest

from data_prep import secrets
from data_prep.errors import UserError
from data_prep.secrets import has_password, held, mask, refuse_typed, remember

KEY = "abc 123/+= xyz 789"


@pytest.fixture(autouse=True)
def only(monkeypatch):
    """An environment with one key in it."""
    for name in held().values():
        monkeypatch.delenv(name)
    monkeypatch.setattr(secrets, "_also", set())
    monkeypatch.setenv("A_API_KEY", KEY)


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "my_key", "GCP_CREDENTIALS"],
)
def test_a_variable_whose_name_says_so_is_a_secret(name, monkeypatch):
    monkeypatch.setenv(name, "value-0123")
    assert mask("it was value-0123, twice value-0123") == f"it was <{name}>, twice <{name}>"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false-01"), ("MAX_TOKENS", "12345678"), ("KEYBOARD", "qwertz-0"),
        ("A_TOKEN", "short"), ("SSL_KEY", "/etc/ssl/private.pem"),
    ],
)  # fmt: skip
def test_what_is_none_is_left_alone(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert mask(f"say {value}") == f"say {value}"


def test_a_variable_that_the_configuration_names_is_one():
    assert mask("letmein-now") == "letmein-now"


def test_remembered(monkeypatch):
    monkeypatch.setenv("GRADER", "letmein-now")
    remember("GRADER")
    assert mask("with letmein-now") == "with <GRADER>"


def test_a_key_within_another_and_in_an_address(monkeypatch):
    monkeypatch.setenv("B_TOKEN", "abc 123/+= xyz")
    assert mask(f"{KEY} and abc 123/+= xyz") == "<A_API_KEY> and <B_TOKEN>"
    assert mask("http://host/?k=abc%20123%2F%2B%3D%20xyz%20789&x=1") == "http://host/?k=<A_API_KEY>&x=1"


def test_keys_of_well_known_forms_are_hidden_whoever_holds_them():
    assert (
        mask("Incorrect API key provided: sk-Proj-4aB7d1f9a3b5c8e20") == "Incorrect API key provided: <a key>"
    )
    assert mask("hf_ABCDEFGHIJabcdefghij0123") == "<a key>"
    assert mask("task-0123456789abcdefABC and sk-a-name-of-an-experiment") == (
        "task-0123456789abcdefABC and sk-a-name-of-an-experiment"
    )


def test_a_typed_key_is_refused_without_repeating_it():
    with pytest.raises(UserError) as caught:
        refuse_typed(["prep", f"teacher.api_key_env={KEY}"])
    assert "teacher.api_key_env on the command line holds a key" in str(caught.value)
    assert KEY not in str(caught.value)
    refuse_typed(["prep", "teacher.api_key_env=A_API_KEY"])


def test_passwords_in_addresses():
    assert has_password("https://me:secret@host/v1")
    assert not has_password("https://host:8000/v1")
