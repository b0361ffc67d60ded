"""Keys from their making to their end, as a server sees them."""

import asyncio
import logging
from pathlib import Path

import pytest

from collector.access import access as directories
from collector.access.access import Access, Directory
from collector.access.secret import PresentedSecret, digest, matches, new_secret, parsed
from collector.cli.access import Wish, issue, lifetime, revoke, rotate
from collector.errors import AccessError, ConfigError, RegistryError
from collector.registry import AccessKey, Registry, open_registry
from tests.collector.access.conftest import add_key, bearer, now
from tests.collector.access.serving import Site
from tests.waiting import until

DAY = 86_400_000_000


def test_a_key_says_what_it_is_and_its_secret_only_once() -> None:
    """A key in a repository is found by its beginning; two are never alike."""
    keys = [new_secret("read") for _ in range(100)]
    assert len({key.text for key in keys}) == 100
    for key in keys:
        assert key.text.startswith(f"gl_read_{key.id}_")
        assert len(key.secret) >= 43  # 256 bits
        assert parsed(key.text) == key
        assert key.secret not in repr(key)
        assert key.secret not in str(key)


@pytest.mark.parametrize(
    "text", ["", "gl", "gl_read", "gl_read_x", "gl_read__x", "_read_x_y", "gl_read_x_" + "y" * 200, "gk_read_a_b"]
)
def test_what_is_no_key_is_none(text: str) -> None:
    """Garbage is refused before anything is asked."""
    assert parsed(text) is None


def test_a_secret_matches_itself_alone() -> None:
    """By its hash, compared in constant time."""
    assert matches("secret", digest("secret"))
    assert not matches("secret", digest("Secret"))
    assert not matches("", digest("secret"))


def test_a_wrong_secret_or_role_opens_nothing(guarded: Site) -> None:
    """The id alone is no secret; and a key for reading does not become one for writing by its name."""
    key = add_key(guarded.registry, "read")
    shown = parsed(key)
    assert shown is not None
    for wrong in (
        PresentedSecret("read", shown.id, "x" * 43),
        PresentedSecret("admin", shown.id, shown.secret),
        PresentedSecret("join", shown.id, shown.secret),
    ):
        answer = guarded.client.get("/metrics", bearer(wrong.text))
        assert (answer.status, answer.json["reason"]) == (401, "token")
    assert guarded.client.get("/metrics", bearer(key)).status == 200


def test_a_new_key_opens_at_once_and_a_revoked_one_no_more_within_seconds(guarded: Site) -> None:
    """Who was given a key does not wait; who lost one is out as soon as the registry was read again."""
    key = add_key(guarded.registry, "read")
    assert guarded.client.get("/metrics", bearer(key)).status == 200
    assert revoke(guarded.registry, [key.split("_")[2]], "test", now()) == []
    until(lambda: guarded.client.get("/metrics", bearer(key)).status == 401, "the key opens no more")
    assert directories.FRESH_SECONDS <= 5


def test_two_collectors_of_a_site_see_the_same_keys(tmp_path: Path) -> None:
    """Each reads only what has changed since it last looked."""
    with open_registry(tmp_path / "r.sqlite") as one, open_registry(tmp_path / "r.sqlite") as other:
        first, second = Directory(one), Directory(other)
        key = parsed(issue(one, Wish("read", "grafana"), "test", now()))
        assert key is not None
        for directory in (first, second):
            assert not directory.knows(key)
            directory.refresh()
            assert directory.principal(key).name == "grafana"
        revoke(other, [key.id], "test", now())
        for directory in (first, second):
            directory.refresh()
            with pytest.raises(AccessError, match="unknown or was revoked"):
                directory.principal(key)


def test_rotation_has_no_gap(guarded: Site) -> None:
    """Two keys of one holder open until the overlap is over; then the new one alone, with the same rights."""
    old = issue(guarded.registry, Wish("read", "grafana", teams=("vision",)), "test", now())
    new = rotate(guarded.registry, old.split("_")[2], 3 * DAY, None, "test", now())
    guarded.follow()
    assert [guarded.client.get("/v1/schema", bearer(key)).status for key in (old, new)] == [200, 200]
    later = Directory(guarded.registry, lambda: now() + 4 * DAY)
    shown_old, shown_new = parsed(old), parsed(new)
    assert shown_old is not None
    assert shown_new is not None
    with pytest.raises(AccessError, match="has expired; gpuledger admin access rotate"):
        later.principal(shown_old)
    assert later.principal(shown_new).teams == frozenset({"vision"})


def test_a_rotation_never_lengthens_a_life(registry: Registry) -> None:
    """A key that ends tomorrow does not go on for the week of the overlap."""
    old = issue(registry, Wish("read", "x", lifetime=DAY), "test", 0)
    rotate(registry, old.split("_")[2], 7 * DAY, None, "test", 0)
    assert [key.expires_at for key in registry.keys.listed() if key.replaces is None] == [DAY]


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (Wish("agent", "x"), "requires it"),
        (Wish("read", "x", node="n1"), "--node is used with"),
        (Wish("admin", "x", teams=("a",)), "--team is used with --role read or owner"),
        (Wish("read", " "), "--name says who"),
        (Wish("read", "x\n"), "--name says who"),
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(registry: Registry, wish: Wish, sentence: str) -> None:
    """Wrong usage is told in a sentence."""
    with pytest.raises(ConfigError, match=sentence):
        issue(registry, wish, "test", 0)
    assert registry.keys.listed() == []


def test_who_waives_may_do_so_for_one_team(registry: Registry) -> None:
    """Else whoever waives a gate would see the requests of every team."""
    issue(registry, Wish("approver", "x", teams=("vision",)), "test", 0)
    assert [key.teams for key in registry.keys.listed()] == [("vision",)]


@pytest.mark.parametrize(
    ("text", "micros"), [("30m", 30 * 60 * 10**6), ("90d", 90 * DAY), ("2w", 14 * DAY), ("never", None)]
)
def test_times_as_people_write_them(text: str, micros: int | None) -> None:
    """90d is ninety days."""
    assert lifetime(text) == micros


@pytest.mark.parametrize("text", ["", "0d", "-1d", "90", "1y", "1.5d", "d", "99999999d"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    """Nobody gets a key for longer than was meant."""
    with pytest.raises(ConfigError, match="is not a valid duration"):
        lifetime(text)


class SilentKeys:
    """Keys of a registry that has gone away."""

    def changed(self, after: int) -> tuple[list[object], int]:
        """Fail as PostgreSQL does when it is down."""
        raise RegistryError("the registry host=db failed: connection refused")


def test_keys_outlive_their_registry_for_an_hour(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL that restarts costs no sample; the log says once that revocations are not heard."""
    key = parsed(add_key(registry, "writer"))
    assert key is not None
    directory = Directory(registry)
    monkeypatch.setattr(registry, "keys", SilentKeys())
    with caplog.at_level(logging.WARNING):
        directory.refresh()
        directory.refresh()
    assert [record.message for record in caplog.records] == [
        "the registry host=db failed: connection refused; known keys stay valid for an hour, and revocations are not "
        "seen"
    ]
    assert directory.principal(key).role == "writer"
    monkeypatch.setattr(directories, "TRUSTED_SECONDS", -1.0)
    with pytest.raises(AccessError, match="has not answered for an hour") as refusal:
        directory.principal(key)
    assert refusal.value.status == 503


class CountingKeys:
    """The keys of a registry, and how often they were read."""

    def __init__(self, registry: Registry) -> None:
        self._keys = registry.keys
        self.reads = 0

    def changed(self, after: int) -> tuple[list[AccessKey], int]:
        """Read, and count."""
        self.reads += 1
        return self._keys.changed(after)


def test_keys_that_nobody_knows_reach_the_registry_twice_a_second_at_most(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who tries many would otherwise reach the registry with each."""
    counting = CountingKeys(registry)
    monkeypatch.setattr(registry, "keys", counting)
    directory = Directory(registry)

    async def many() -> None:
        for _ in range(2):
            await asyncio.gather(*(directory.hurry() for _ in range(200)))

    asyncio.run(many())
    assert counting.reads == 3, "at the start, and once for each two hundred"


def test_an_id_that_is_known_is_told_by_nothing(tmp_path: Path) -> None:
    """A wrong secret of a known id was refused at once, one of an unknown id after a look into the registry."""
    with open_registry(tmp_path / "registry.sqlite") as registry:
        known = parsed(add_key(registry, "read"))
        assert known is not None
        asked: list[str] = []

        class Watched(Directory):
            async def hurry(self) -> None:
                asked.append("looked")

        access = Access(registry, is_loopback=False)
        access.directory = Watched(registry)
        for shown in (f"gl_read_{known.id}_{'x' * len(known.secret)}", f"gl_read_{'y' * len(known.id)}_{known.secret}"):
            with pytest.raises(AccessError):
                asyncio.run(access.holder(shown.encode()))
        assert asked == ["looked", "looked"]
