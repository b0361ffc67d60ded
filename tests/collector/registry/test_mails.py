"""What the registry keeps of mails, on both databases: claimed by one, noted once, stopped for good."""

from collections.abc import Callable

from collector.registry import Queued, Registry, Subscription

NOW = 1_795_000_000_000_000
ONE = Subscription("0123", "fleet", "a@example.com", NOW)
MAIL = Queued("0123", "2026-W46", NOW, "Subject: a week\r\n\r\nwords\r\n")


def test_a_mail_is_claimed_by_one_and_noted_once(opened: Callable[[], Registry]) -> None:
    """Two hosts with one registry send it once."""
    first, second = opened().mails, opened().mails
    first.subscribe(ONE)
    assert first.queue(MAIL, NOW)
    assert not second.queue(MAIL, NOW)
    claimed = second.claim(NOW)
    assert claimed is not None
    assert (claimed.address, claimed.body, claimed.attempts) == ("a@example.com", MAIL.body, 1)
    assert first.claim(NOW) is None
    second.note(claimed, "sent", "", NOW + 1)
    made = first.made("0123", "2026-W46")
    assert made is not None
    assert (made.state, made.done_at, first.last_sent("0123")) == ("sent", NOW + 1, NOW + 1)
    assert not first.queue(MAIL, NOW + 2)


def test_who_stops_while_a_mail_is_tried_gets_no_second_try(registry: Registry) -> None:
    """The server said "later" after the reader had said "never"; the same where the sender died."""
    mails = registry.mails
    mails.subscribe(ONE)
    mails.queue(MAIL, NOW)
    claimed = mails.claim(NOW)
    assert claimed is not None
    mails.stop("0123", NOW + 1, "its reader")
    mails.note(claimed, "queued", "450 later", NOW + 2, NOW + 3)
    assert mails.claim(NOW + 4) is None
    assert [one.state for one in mails.sends()] == ["dropped"]


def test_what_was_stopped_waits_no_more_and_stays_stopped(registry: Registry) -> None:
    """Also where the settings still name the address; and the audit knows who did it."""
    mails = registry.mails
    mails.subscribe(ONE)
    mails.queue(MAIL, NOW)
    for _ in range(2):
        mails.stop("0123", NOW, "its reader")
    assert mails.claim(NOW) is None
    assert mails.subscribe(ONE).stopped_at == NOW
    assert [one.state for one in mails.sends()] == ["dropped"]
    mails.resume("0123", NOW, "cli: an operator")
    assert mails.subscribe(ONE).stopped_at is None
    assert [(one.action, one.subject) for one in registry.audit.since(0)] == [
        ("stop mail", "0123"),
        ("resume mail", "0123"),
    ]


def test_the_key_is_drawn_once_a_site(opened: Callable[[], Registry]) -> None:
    """A link made by one process is understood by all."""
    first, second = opened().mails, opened().mails
    assert first.known_key() is None
    assert first.key() == second.key() == second.known_key()
    assert len(first.key()) == 32


def test_the_unknown_is_nobodys(registry: Registry) -> None:
    """Nothing is made up for an id that was never noted."""
    assert registry.mails.subscription("9999") is None
    registry.mails.stop("9999", NOW, "nobody")
    assert registry.audit.since(0) == []
