"""A host joins: a real agent's link, a real collector, HTTP and HTTPS."""

import json
import logging
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.clock import Clock
from agent.config import AgentConfig
from agent.delivery.link import Backoff, JoiningLink, link_of, write_private
from agent.delivery.sender import Sender
from agent.errors import ConfigError
from agent.spool.queue import Spool, open_spool
from collector.access.enrol import AT_ONCE
from collector.access.secret import parsed
from collector.cli.access import join
from collector.config import CollectorConfig
from collector.errors import JoinError
from collector.registry import AccessKey
from tests.agent.batches import maker
from tests.agent.receiver import Receiver, Reply
from tests.collector.access.authority import Authority
from tests.collector.access.conftest import TOKEN, add_key, bearer, now
from tests.collector.access.serving import Site, site
from tests.collector.batches import body

DAY = 86_400_000_000


def token(guarded: Site, **more: Any) -> str:
    """Make a join token, for one host of any name where nothing else is said."""
    given: dict[str, Any] = {"node_glob": "*", "uses": 1, "lifetime": DAY, "replaces": False} | more
    return join(guarded.registry, by="test", now=now(), **given)


def enrol(guarded: Site, shown: str, node: str = "n14") -> tuple[int, dict[str, Any]]:
    """Show a join token and return the answer."""
    said = json.dumps({"token": shown, "node": node}).encode()
    answer = guarded.client.request("POST", "/v1/enrol", said, {"Content-Type": "application/json"})
    return answer.status, answer.json


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """A spool with three batches of the host n14."""
    queue = open_spool(tmp_path / "spool", 10**7, 10**7, sync=False)
    for _ in range(3):
        queue.append(maker())
    yield queue
    queue.close()


def settings(tmp_path: Path, url: str, shown: str, ca_file: Path | None = None) -> AgentConfig:
    """Return an agent's settings with a join token in a file."""
    (tmp_path / "join").write_text(shown + "\n")
    return AgentConfig(
        node="n14", collector=url, ca_file=ca_file, join_token_file=tmp_path / "join", key_file=tmp_path / "agent.key"
    )


def delivered(config: AgentConfig, spool: Spool, steps: int) -> list[bool]:
    """Send, and return of each step whether it went well."""
    sender = Sender(spool, link_of(config), Clock(), Backoff(lambda: 0.0))
    went = [sender.step(0) == 0 for _ in range(steps)]
    sender.close()
    return went


def test_a_host_gets_a_key_of_its_own_and_uses_it(guarded: Site, spool: Spool, tmp_path: Path) -> None:
    """With its first batch; the key lies in a file that nobody else can read, and the next start uses that."""
    config = settings(tmp_path, f"http://127.0.0.1:{guarded.port}", token(guarded))
    assert delivered(config, spool, 2) == [True, True]
    file = tmp_path / "agent.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    key = parsed(file.read_text().strip())
    assert key is not None
    assert (key.role, guarded.batches()) == ("agent", 2)
    (kept,) = guarded.registry.keys.listed()
    assert (kept.id, kept.node) == (key.id, "n14")
    (tmp_path / "join").unlink()
    assert not isinstance(link_of(config), JoiningLink)
    assert delivered(config, spool, 1) == [True]
    assert len(guarded.registry.keys.listed()) == 1


def test_a_key_that_could_not_be_kept_is_not_asked_for(
    guarded: Site, spool: Spool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that nobody made must not use the token up, nor be told as a server that does not answer."""
    config = settings(tmp_path, f"http://127.0.0.1:{guarded.port}", token(guarded))
    elsewhere = replace(config, key_file=tmp_path / "missing" / "agent.key")
    assert delivered(elsewhere, spool, 1) == [False]
    assert f"cannot write key_file {elsewhere.key_file}: its folder does not exist" in caplog.text
    assert guarded.registry.keys.listed() == []
    (tmp_path / "missing").mkdir()
    assert delivered(elsewhere, spool, 1) == [True]


def test_over_tls_with_an_authority_of_the_site(config: CollectorConfig, spool: Spool, tmp_path: Path) -> None:
    """Neither join token nor key is readable on the way, and nothing is shown to who is not the collector."""
    authority = Authority(tmp_path)
    signed = authority.server()
    own = replace(config, tokens=(TOKEN,), tls_certificate=str(signed.certificate), tls_key=str(signed.key))
    with site(own) as guarded:
        url = f"https://127.0.0.1:{guarded.port}"
        shown = token(guarded)
        strangers = settings(tmp_path, url, shown)
        assert delivered(strangers, spool, 1) == [False], "the system's authorities do not know this one"
        assert guarded.registry.keys.listed() == []
        assert delivered(replace(strangers, ca_file=authority.certificate), spool, 3) == [True] * 3
        assert guarded.batches() == 3


def test_what_is_measured_waits_for_a_join_token_that_works(
    guarded: Site, spool: Spool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong token costs no sample, not even where the refusal looks like one of the batch; the log says it once."""
    config = settings(tmp_path, f"http://127.0.0.1:{guarded.port}", "gl_join_aaaaaaaa_" + "x" * 43)
    with caplog.at_level(logging.WARNING, "agent.delivery.sender"):
        assert delivered(config, spool, 3) == [False] * 3
    assert [record.message for record in caplog.records] == [
        f"http://127.0.0.1:{guarded.port} answered 403: not enrolled: no such join token; create one: "
        "gpuledger admin access join; batches wait in the spool"
    ]
    assert (spool.waiting, guarded.batches()) == (3, 0)
    (tmp_path / "join").write_text(token(guarded))
    assert delivered(config, spool, 3) == [True] * 3


def test_a_name_that_is_refused_sets_no_batch_aside(guarded: Site, spool: Spool, tmp_path: Path) -> None:
    """400 says that a batch will never be taken; here it is the enrolment that is wrong, and the batch waits."""
    config = settings(tmp_path, f"http://127.0.0.1:{guarded.port}", token(guarded))
    assert delivered(replace(config, node="a name with blanks"), spool, 2) == [False, False]
    assert spool.waiting == 3


def test_a_collector_that_is_away_costs_no_sample(spool: Spool, tmp_path: Path) -> None:
    """The agent starts all the same and asks again later."""
    assert delivered(settings(tmp_path, "http://127.0.0.1:1", "gl_join_a_b"), spool, 2) == [False, False]
    assert spool.waiting == 3


@pytest.mark.parametrize("content", ["", "two words", "two\nlines", "ключ"])
def test_a_file_that_holds_no_token_is_told_at_the_start_and_never_shown(tmp_path: Path, content: str) -> None:
    """A mistake in a file ends the start with a sentence that does not repeat what may be a secret."""
    config = settings(tmp_path, "http://127.0.0.1:1", content)
    with pytest.raises(ConfigError) as told:
        link_of(config)
    assert str(tmp_path / "join") in str(told.value)
    assert not content or content not in str(told.value)
    with pytest.raises(ConfigError, match="cannot read"):
        link_of(replace(config, join_token_file=tmp_path / "none"))
    (tmp_path / "join").write_text("gl_join_a_b")
    with pytest.raises(ConfigError, match=r"needs agent\.key_file"):
        link_of(replace(config, key_file=None))


def test_a_token_of_the_settings_goes_before_a_key(tmp_path: Path) -> None:
    """What an operator wrote by hand is meant."""
    write_private(tmp_path / "agent.key", "gl_agent_a_b")
    config = replace(settings(tmp_path, "http://127.0.0.1:1", "gl_join_a_b"), token="by-hand")
    assert link_of(config)._token == "by-hand"
    assert link_of(replace(config, token=""))._token == "gl_agent_a_b"


def test_a_join_token_serves_as_often_as_it_says(guarded: Site) -> None:
    """And a node can only be one: a second key for the same host is refused, also for who has a token."""
    shown = token(guarded, uses=2)
    assert enrol(guarded, shown, "n1")[0] == 201
    assert guarded.client.post(body(), bearer(enrol(guarded, shown, "n14")[1]["key"])).status == 200
    status, said = enrol(guarded, shown, "n3")
    assert (status, said["reason"]) == (403, "used_up")


def test_a_host_that_has_a_key_is_not_given_another(guarded: Site) -> None:
    """Who finds a join token must not become a host that is there already; a new installation says --replace."""
    first = add_key(guarded.registry, "agent", node="n14")
    guarded.follow()
    assert guarded.client.post(body(), bearer(first)).status == 200
    status, said = enrol(guarded, token(guarded))
    assert (status, said["reason"]) == (409, "enrolled")
    assert "--replace" in said["error"]
    status, said = enrol(guarded, token(guarded, replaces=True))
    assert status == 201
    assert guarded.client.post(body(2), bearer(first)).status == 401
    assert guarded.client.post(body(2), bearer(said["key"])).status == 200


def test_a_lost_answer_costs_no_use(guarded: Site) -> None:
    """The key that never arrived was never shown; it is replaced, once more for the same token."""
    shown = token(guarded)
    lost = enrol(guarded, shown)[1]["key"]
    again = enrol(guarded, shown)[1]["key"]
    assert guarded.client.post(body(), bearer(lost)).status == 401
    assert guarded.client.post(body(), bearer(again)).status == 200
    guarded.access.usage.flush()
    assert enrol(guarded, shown)[0] == 409, "a key that has opened something has arrived"


@pytest.mark.parametrize(
    ("more", "node", "reason"),
    [
        ({"node_glob": "gpu-*"}, "n14", "node"),
        ({"node_glob": "N*"}, "n14", "node"),
        ({"lifetime": -1}, "n14", "expired"),
        ({}, "n14/../x", "fields"),
        ({}, "", "fields"),
        ({}, "x" * 300, "fields"),
    ],
)
def test_a_join_token_is_for_some_hosts_and_some_time(
    guarded: Site, more: dict[str, Any], node: str, reason: str
) -> None:
    """What it is not for, it does not open."""
    status, said = enrol(guarded, token(guarded, **more), node)
    assert (status // 100, said["reason"]) == (4, reason)
    assert guarded.registry.keys.listed() == []


def test_a_revoked_join_token_and_a_wrong_secret_are_told_alike(guarded: Site) -> None:
    """Who guesses does not learn which tokens there are."""
    shown = parsed(token(guarded))
    assert shown is not None
    answers = [enrol(guarded, f"gl_join_{shown.id}_{'x' * 43}"), enrol(guarded, f"gl_join_zzzzzzzz_{shown.secret}")]
    guarded.registry.joins.revoke(shown.id, now(), "test")
    answers.append(enrol(guarded, shown.text))
    assert answers == [answers[0]] * 3
    assert answers[0][0] == 403


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b"null",
        b'{"token": 1, "node": "n"}',
        b'{"node": "n14"}',
        b"[" * 4000,
        b"\xff\xfe",
        b"{" + b" " * 5000,
    ],
)
def test_garbage_is_refused_in_a_sentence(guarded: Site, content: bytes) -> None:
    """The route is open to everybody, so it believes nothing and reads little."""
    answer = guarded.client.request("POST", "/v1/enrol", content, {"Content-Type": "application/json"})
    assert answer.status in (400, 413)
    assert answer.json["error"]


def test_all_at_once_get_what_is_there_once(guarded: Site) -> None:
    """Twenty hosts with a token for five: five get in."""
    shown = token(guarded, uses=5)
    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda number: enrol(guarded, shown, f"n{number}")[0], range(20)))
    assert (statuses.count(201), statuses.count(403)) == (5, 15)
    assert guarded.registry.joins.listed()[0].used == 5


def test_an_enrolment_that_fails_leaves_no_key(guarded: Site) -> None:
    """Both are written, the key and the use of its token, or neither."""
    with pytest.raises(JoinError):
        guarded.registry.joins.enrol("nosuch", AccessKey("k", "agent", "n14", "hash", 0, "test"), "n14", now())
    assert guarded.registry.keys.listed() == []


def test_no_answer_of_a_stranger_becomes_a_key(spool: Spool, tmp_path: Path) -> None:
    """A login page answers 200, a proxy something else: neither is written to the file."""
    for reply in (
        Reply(200, {"key": "gl_agent_a_b"}),
        Reply(201, {}),
        Reply(201, {"key": "two words"}),
        Reply(201, raw=b"<html>"),
    ):
        with Receiver(partial(_always, reply)) as receiver:
            assert delivered(settings(tmp_path, receiver.url, "gl_join_a_b"), spool, 1) == [False]
    assert not (tmp_path / "agent.key").exists()


def _always(reply: Reply, _: bytes) -> Reply:
    return reply


def test_who_shows_tokens_that_open_nothing_has_to_wait(guarded: Site) -> None:
    """Each try looks into the registry and is noted: a loop of one client must not fill either."""
    answers = [enrol(guarded, "gl_join_nothing")[0] for _ in range(AT_ONCE + 3)]
    assert (answers[0], answers[-1]) == (403, 429)
    said = json.dumps({"token": token(guarded), "node": "n14"}).encode()
    answer = guarded.client.request("POST", "/v1/enrol", said, {"Content-Type": "application/json"})
    assert (answer.status, answer.json["reason"]) == (429, "attempts")
    assert int(answer.headers["retry-after"]) > 0
