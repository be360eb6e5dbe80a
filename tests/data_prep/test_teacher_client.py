"""The client against an endpoint that answers as it is told: what is survived, what ends a run, what is paid
once."""

import asyncio
import errno
import json
import time

import pytest
from miniature import put_picture
from omegaconf import OmegaConf
from stub_endpoint import Stub
from teacher_runs import teacher_config

from data_prep.endpoint.limits import Limiter, pause, retry_after
from data_prep.endpoint.wire import MalformedError
from data_prep.errors import UserError
from data_prep.teacher import client as client_module
from data_prep.teacher.cache import FILE, ReplyCache
from data_prep.teacher.client import Client, Reply, Request, Stopped
from data_prep.teacher.messages import read_reply, request_key

SYSTEM = "Overview\nKey Objects\nSpatial Reasoning"
SIZES = "Picture 1 is 64 pixels wide and 48 high."


def question(number: int = 0, **fields) -> Request:
    return Request(SYSTEM, f"{SIZES} The right option is A. Number {number}", **fields)


def ask(base_url, folder, *requests, **keys):
    """The replies, or the first error, and the client's usage."""

    async def run():
        async with Client(teacher_config(base_url, **keys), folder) as client:
            replies = await asyncio.gather(*(client.ask(r) for r in requests), return_exceptions=True)
            errors = [reply for reply in replies if isinstance(reply, BaseException)]
            if errors:
                raise errors[0]
            return replies, client.usage

    return asyncio.run(run())


def test_a_reply_is_paid_for_once_also_in_another_run(tmp_path):
    requests = [question(n) for n in range(20)]
    with Stub(flawed=False, trouble=0.0) as stub:
        first, usage = ask(stub.base_url, tmp_path, *requests, *requests)
        assert (usage.sent, usage.cached, len(stub.log)) == (20, 0, 20)
        second, again = ask(stub.base_url, tmp_path, *requests)
        assert (again.sent, again.cached, len(stub.log)) == (0, 20, 20)
        assert [r.text for r in first[:20]] == [r.text for r in second] == [r.text for r in first[20:]]
        assert all(reply.cached for reply in second)
        assert again.prompt_tokens == usage.prompt_tokens > 0
        ask(stub.base_url, tmp_path, question(0, attempt=1), question(0, model="other"))
        assert len(stub.log) == 22


def test_pictures_go_first_as_data_urls_and_count_by_content(tmp_path):
    for name, seed in (("a.png", 1), ("b.jpg", 2), ("copy/a.png", 1), ("other.png", 3)):
        put_picture(tmp_path / name, seed=seed)
    names = ("a.png", "b.jpg"), ("copy/a.png", "b.jpg"), ("b.jpg", "a.png"), ("other.png", "b.jpg")
    requests = [question(images=tuple(tmp_path / name for name in some)) for some in names]
    keys = [request_key(request, "m", {}) for request in requests]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    content = client_module.request_messages(requests[0])[1]["content"]
    assert [part["type"] for part in content] == ["image_url", "image_url", "text"]
    assert content[0]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert content[1]["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")


HARD = ("rate limit", "server error", "overloaded", "cut", "half JSON", "HTML", "no choices", "slow")
COUNTED = {
    "rate limit": "rate limit", "server error": "status 500", "overloaded": "status 503", "cut": ""
    "connection lost",
    "half JSON": "malformed answer", "HTML": "malformed answer", "no choices": "malformed answer", "slow": ""
    "time-out",
}  # fmt: skip


@pytest.mark.parametrize("hardship", HARD)
def test_hardships_are_survived_and_counted(hardship, tmp_path, monkeypatch):
    monkeypatch.setattr("stub_endpoint.HARDSHIPS", (hardship,))
    monkeypatch.setattr("data_prep.endpoint.limits.FIRST_WAIT", 0.01)
    with Stub(flawed=False, trouble=1.0) as stub:
        replies, usage = ask(stub.base_url, tmp_path, *(question(n) for n in range(4)), timeout=0.2)
    assert all(reply.text for reply in replies)
    assert set(usage.faults) == {COUNTED[hardship]}
    assert usage.faults.total() == stub.met[hardship] == usage.sent - 4


@pytest.mark.parametrize(
    ("status", "message"), [(401, "refuses"), (403, "refuses"), (404, "no model"), (402, "quota")]
)
def test_what_every_request_would_meet_ends_the_run(status, message, tmp_path):
    with Stub(status=status) as stub:
        with pytest.raises(UserError, match=message) as told:
            ask(stub.base_url, tmp_path, *(question(n) for n in range(100)), concurrency=4)
        assert len(stub.log) <= 4
    assert stub.base_url in str(told.value)
    assert "\n" not in str(told.value)


def test_a_request_that_is_refused_is_given_up_alone(tmp_path):
    with Stub(status=400) as stub:
        replies, usage = ask(stub.base_url, tmp_path, question())
    assert (replies[0].given_up, replies[0].text, usage.sent) == (True, None, 1)
    assert replies[0].fault.startswith("status 400")
    assert not (tmp_path / FILE).read_bytes()


def test_an_endpoint_that_is_down_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("data_prep.endpoint.limits.FIRST_WAIT", 0.001)
    with Stub(status=500) as stub, pytest.raises(UserError, match="answered none of 32 requests"):
        ask(stub.base_url, tmp_path, *(question(n) for n in range(200)), tries=2)
    with pytest.raises(UserError, match="connection lost"):
        ask(stub.base_url, tmp_path, *(question(n) for n in range(200)), tries=1)


@pytest.mark.parametrize(
    "keys", [{"max_requests": 10}, {"max_cost": 0.01, "price_in": 1.0, "price_out": 1.0}]
)
def test_limits_stop_cleanly_and_keep_what_is_paid(keys, tmp_path):
    requests = [question(n) for n in range(50)]
    with Stub(flawed=False, trouble=0.0, latency=0.01) as stub:
        with pytest.raises(Stopped, match="kept: raise it and give the same command again"):
            ask(stub.base_url, tmp_path, *requests, concurrency=4, **keys)
        paid = len((tmp_path / FILE).read_bytes().splitlines())
        assert 0 < paid == len(stub.log) <= 12
        with pytest.raises(Stopped):
            ask(stub.base_url, tmp_path, *requests, concurrency=4, **keys)
        assert len(stub.log) == paid
        ask(stub.base_url, tmp_path, *requests)
        assert len(stub.log) == 50


def test_a_full_disk_ends_the_run(tmp_path):
    async def run(base_url):
        async with Client(teacher_config(base_url), tmp_path) as client:
            client._cache._log._log._out = open("/dev/full", "w")  # noqa: SIM115
            try:
                await asyncio.gather(*(client.ask(question(n)) for n in range(5)))
            finally:
                client._cache._log._log._out = open(tmp_path / "other", "w")  # noqa: SIM115

    with Stub(flawed=False, trouble=0.0) as stub, pytest.raises(OSError) as told:  # noqa: PT011
        asyncio.run(run(stub.base_url))
    assert told.value.errno == errno.ENOSPC


def test_the_key_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("A_KEY", raising=False)
    with pytest.raises(UserError, match="environment variable A_KEY"):
        Client(teacher_config("http://x", api_key_env="A_KEY"), tmp_path)
    monkeypatch.setenv("A_KEY", "secret")
    config = teacher_config("http://x", api_key_env="A_KEY")
    assert Client(config, tmp_path)._sender._api.api_key == "secret"
    assert "secret" not in OmegaConf.to_yaml(config)


def test_two_runs_do_not_share_a_folder_at_once(tmp_path):
    async def run():
        async with ReplyCache(tmp_path), ReplyCache(tmp_path):
            pass

    with pytest.raises(UserError, match="in use"):
        asyncio.run(run())


def test_a_line_that_a_kill_cut_is_dropped_and_a_broken_one_is_told(tmp_path):
    async def keys():
        async with ReplyCache(tmp_path) as cache:
            await asyncio.gather(*(cache.put(str(n), Reply("é", None, 1, 2)) for n in range(5)))
            return len(cache)

    assert asyncio.run(keys()) == 5
    path = tmp_path / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines)[:-4])
    assert asyncio.run(keys()) == 5
    path.write_bytes(lines[0] + b"{}\n" + lines[1])
    with pytest.raises(UserError, match=f"{path} holds a line that is no reply .* after 1 that are"):
        asyncio.run(keys())


@pytest.mark.parametrize(
    ("choice", "text", "fault"),
    [
        ({"message": {"content": "x"}}, "x", None),
        ({"message": {"content": [{"type": "text", "text": "x"}, {"text": "y"}]}}, "xy", None),
        ({"message": {"content": "a\ud83cb"}}, "a\ufffdb", None),
        ({"message": {"content": None, "refusal": "no"}}, None, "refused"),
        ({"message": {"content": "x"}, "finish_reason": "content_filter"}, None, "refused"),
        ({"message": {"content": "x"}, "finish_reason": "length"}, None, "cut off at the token limit"),
        ({"message": {"content": " \n"}}, None, "empty"),
        ({"message": {}}, None, "empty"),
    ],
)
def test_what_a_completion_says(choice, text, fault):
    reply = read_reply(json.dumps({"choices": [choice]}).encode(), "p" * 40)
    assert (reply.text, reply.fault, reply.prompt_tokens) == (text, fault, 10)


BROKEN = (
    b"", b"{", b"[]", b"null", b'{"choices": []}', b'{"choices": [{"message": {"content": 3}}]}', b"\xff",
    b"[" * 100_000,
)  # fmt: skip


@pytest.mark.parametrize("content", BROKEN)
def test_what_is_no_completion(content):
    with pytest.raises(MalformedError):
        read_reply(content, "p")


def test_a_schema_is_asked_for_until_it_is_refused(tmp_path):
    with Stub(flawed=False, trouble=0.0, refuse_schema=True) as stub:
        replies, usage = ask(stub.base_url, tmp_path, question(json_schema={"type": "object"}))
    assert replies[0].text
    assert usage.faults == {"no response_format": 1}


def test_concurrency_rises_with_answers_and_falls_once_a_round():
    limiter = Limiter(64)
    assert limiter.limit == 16
    for _ in range(48):
        limiter.answered()
    assert limiter.limit == 64
    limiter.answered()
    assert limiter.limit == 64
    taken = time.monotonic()
    limiter.congested(taken)
    limiter.congested(taken - 1)
    assert limiter.limit == 44
    for _ in range(45):
        limiter.answered()
    assert limiter.limit in (45, 46)
    for _ in range(40):
        limiter.congested(time.monotonic())
    assert limiter.limit == 1


def test_nothing_is_sent_while_the_endpoint_asks_to_wait():
    async def run():
        limiter = Limiter(4)
        limiter.congested(time.monotonic(), 0.1)
        started = time.monotonic()
        async with limiter.slot():
            return time.monotonic() - started

    assert asyncio.run(run()) >= 0.1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, 0.0),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after(headers) == seconds


def test_pauses_grow_and_differ():
    assert all(0.25 <= pause(1) <= 0.5 for _ in range(100))
    assert all(15 <= pause(20) <= 30 for _ in range(100))
    assert len({pause(3) for _ in range(10)}) > 1
