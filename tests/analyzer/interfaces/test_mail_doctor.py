"""What the doctor says of the weekly e-mail: each thing that can be wrong is made so, and is said."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from analyzer.interfaces.doctor.cli import doctor
from analyzer.interfaces.doctor.connections import mail
from analyzer.interfaces.doctor.sight import MailSight, Sight
from analyzer.interfaces.mail.sending import greet
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.settings.settings import Settings
from collector.config import CollectorConfig
from collector.registry import Queued, Registry, Subscription
from collector.store.database import Store
from tests.analyzer.interfaces.conftest import Served
from tests.analyzer.reports import example_week

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOW = example_week.W46.end + 4 * DAY
Say = Callable[..., list[tuple[str, str]]]


@pytest.fixture
def say(example_store: Store, served: Served, registry: Registry) -> Iterator[Say]:
    """Return a function that looks at the mail and returns answers and words."""

    with example_store.session() as session:

        def look(settings: MailSettings = served.settings, now: int = NOW, **more: object) -> list[tuple[str, str]]:
            seen = MailSight(settings, tuple(registry.mails.sends()), lambda: greet(settings))
            config = CollectorConfig(store=Path("store.duckdb"))
            site = Settings(site_url="https://gpuledger.example", timezone="Europe/Berlin")
            sight = Sight(example_store, session, site, config, now, mail=replace(seen, **more))  # type: ignore[arg-type]
            return [(line.answer, line.what) for line in mail(sight).lines]

        yield look


def made(registry: Registry, state: str, told: str = "", at: int = NOW - DAY, address: str = "nlp@example.com") -> None:
    """Let one mail of W46 be made, and become what it became."""
    registry.mails.subscribe(Subscription(address, "fleet", address, at))
    registry.mails.queue(Queued(address, "2026-W46", example_week.W46.end, "x"), at)
    if state == "queued" and not told:
        return
    claimed = registry.mails.claim(at)
    assert claimed is not None
    registry.mails.note(claimed, state, told, at, at + HOUR)  # type: ignore[arg-type]


def test_a_site_without_mail_is_well(say: Say) -> None:
    """Nobody has to mail anything."""
    assert say(MailSettings()) == [("ok", "no mail is set up: the settings have no [mail]")]


def test_half_a_setting_is_said(say: Say, served: Served) -> None:
    """The timer would fail each Wednesday, and nobody reads its log."""
    ((answer, what),) = say(replace(served.settings, host="", recipients=(), teams={}))
    assert answer == "bad"
    assert "needs host, recipients or teams" in what


def test_a_week_that_nobody_was_mailed_is_bad(say: Say) -> None:
    """The timer is not enabled: on the day after it should have fired that is an accident, before it is early."""
    assert ("bad", "the week 2026-W46 ended 4 d ago and was mailed to nobody") in say()
    assert say(now=example_week.W46.end + 2 * DAY)[0] == (
        "note",
        "no mail has left yet; they do when a week has closed",
    )


def test_the_newest_mail_has_an_age(say: Say, registry: Registry) -> None:
    """Who reads it knows whether this Wednesday's went."""
    made(registry, "sent")
    assert say()[0] == ("ok", "the newest mail left 24 h ago, on 2026-W46")


def test_a_mail_that_waits_says_for_how_long_and_why(say: Say, registry: Registry) -> None:
    """An hour is a busy server; a day is an accident."""
    made(registry, "queued", "cannot be reached", at=NOW - HOUR)
    assert ("note", "1 mail waits, the oldest for 60 min: cannot be reached") in say()
    assert ("bad", "1 mail waits, the oldest for 24 h: cannot be reached") in say(now=NOW + 23 * HOUR)


def test_who_is_refused_is_counted_and_not_named(say: Say, registry: Registry) -> None:
    """Whoever may read the ledger may ask the doctor; addresses are the operator's (`gpuledger admin mail`)."""
    made(registry, "failed", "550 no such user")
    (refused,) = [what for answer, what in say() if answer == "bad"]
    assert refused == "1 reader did not get 2026-W46: n...@example.com"


def test_the_server_is_called_on_and_gets_no_mail(say: Say, served: Served) -> None:
    """A password that changed is found on the day, and not on Wednesday."""
    port = served.settings.port
    assert say()[-1] == ("ok", f"the SMTP server 127.0.0.1:{port} answers, over TLS that is verified, and knows us")
    assert served.mailbox.got == []
    wrong = replace(served.settings, port=1)
    assert say(wrong)[-1][0] == "bad"
    assert "cannot be reached" in say(wrong)[-1][1]
    (served.certificate.parent / "password").write_text("another\n")
    assert say()[-1][1].startswith(f"the SMTP server 127.0.0.1:{port} rejects the user or the password")


def test_what_is_not_seen_is_said(say: Say) -> None:
    """A server calls on nobody because a reader asked it, and says so."""
    assert [answer for answer, _ in say(sends=None, greet=None)] == ["unseen", "unseen"]


def test_the_command_looks_at_the_settings_beside_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1 where the server does not answer, so that cron may run it."""
    path = tmp_path / "store.duckdb"
    with Store.open(path) as store, store.session() as session:
        example_week.fill(session)
    (tmp_path / "gpuledger.toml").write_text(
        '[mail]\nsender = "a@example.com"\nhost = "127.0.0.1"\nport = 1\nrecipients = ["b@example.com"]\n'
        '[analyzer]\nsite_url = "https://gpuledger.example"\n'
    )
    assert doctor(["--store", str(path)]) == 1
    said = capsys.readouterr().out
    assert "MAIL" in said
    assert "127.0.0.1:1 cannot be reached" in said
