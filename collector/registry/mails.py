"""Mails as the site remembers them: who has stopped them, which were sent, which wait. Each is sent once a period.

A mail is claimed, handed to the SMTP server and then noted as sent: three steps, of which the second is not ours to
undo. Whoever is killed between the second and the third leaves a claim, which ends after CLAIM_US. The mail is then
sent once more, with the same Message-ID and the same bytes: a copy that readers' servers can tell is better than a
week that silently never came. It errs to that side once; a second broken claim is noted as failed and told.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Select, delete, func, select, update

from collector.registry.audit import AuditEntry, record
from collector.registry.tables import MAIL_SECRETS, MAIL_SENDS, MAIL_SUBSCRIPTIONS, Database, columns_of, values_of

State = Literal["queued", "sending", "sent", "failed", "dropped"]
CLAIM_US = 15 * 60_000_000  # after this, who claimed a mail is taken to be dead
_KEPT_US = 400 * 86_400_000_000  # how long it is known what was sent: as the audit
_KEY_BYTES = 32
_KEY = "stop"
_STOPPED = "its recipient has unsubscribed"
_UNKNOWN = "interrupted twice between sending and recording it; whether it arrived is not known"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One address of one list. `stopped_at` None: it gets the mail."""

    id: str
    list: str
    address: str
    created_at: int
    stopped_at: int | None = None
    stopped_by: str | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    """One mail that waits or is being sent: to whom, of which period, its bytes as ASCII, how often it was tried."""

    subscription: str
    period: str
    period_end: int
    body: str
    address: str = ""
    list: str = ""
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Send:
    """What became of one mail; `told` is what the server said, empty where all went well."""

    subscription: str
    list: str
    address: str
    period: str
    state: State
    attempts: int
    next_at: int
    done_at: int | None
    told: str
    made_at: int


class Mails:
    """The site's mails. Safe to use from several processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def key(self) -> bytes:
        """Return the secret with which links to stop are made; it is drawn once a site, and never leaves it."""
        drawn = self._database.insert(MAIL_SECRETS).values(name=_KEY, value=secrets.token_hex(_KEY_BYTES))
        with self._database.writing() as connection:
            connection.execute(drawn.on_conflict_do_nothing())
            return bytes.fromhex(
                connection.execute(select(MAIL_SECRETS.c.value).where(MAIL_SECRETS.c.name == _KEY)).scalar_one()
            )

    def known_key(self) -> bytes | None:
        """Return the secret, or None where no mail was ever made."""
        rows = self._database.rows(select(MAIL_SECRETS.c.value).where(MAIL_SECRETS.c.name == _KEY))
        return bytes.fromhex(rows[0].value) if rows else None

    def subscribe(self, one: Subscription) -> Subscription:
        """Note an address of a list where it is new, and return it as it stands: it may have stopped the mail."""
        new = self._database.insert(MAIL_SUBSCRIPTIONS).values(**values_of(one)).on_conflict_do_nothing()
        with self._database.writing() as connection:
            connection.execute(new)
            found = _subscription(connection, one.id)
        if found is None:
            raise AssertionError("BUG: a subscription that was just noted is not there")
        return found

    def subscription(self, id: str) -> Subscription | None:  # noqa: A002  the field's name
        """Return one, or None."""
        with self._database.reading() as connection:
            return _subscription(connection, id)

    def subscriptions(self) -> list[Subscription]:
        """Return all, by list and address."""
        ordered = _subscriptions().order_by(MAIL_SUBSCRIPTIONS.c.list, MAIL_SUBSCRIPTIONS.c.address)
        return [Subscription(*row) for row in self._database.rows(ordered)]

    def stop(self, id: str, now: int, by: str) -> None:  # noqa: A002  the field's name
        """Stop the mail to one address of one list, and forget what waits for it. Twice is as once."""
        with self._database.writing() as connection:
            going = (MAIL_SUBSCRIPTIONS.c.id == id) & MAIL_SUBSCRIPTIONS.c.stopped_at.is_(None)
            done = connection.execute(update(MAIL_SUBSCRIPTIONS).where(going).values(stopped_at=now, stopped_by=by))
            if done.rowcount:
                record(connection, AuditEntry(now, "change", by, "stop mail", id))
            waits = (MAIL_SENDS.c.subscription == id) & (MAIL_SENDS.c.state == "queued")
            connection.execute(update(MAIL_SENDS).where(waits).values(_ended("dropped", now, _STOPPED)))

    def resume(self, id: str, now: int, by: str) -> None:  # noqa: A002  the field's name
        """Let mails come again."""
        with self._database.writing() as connection:
            own = (MAIL_SUBSCRIPTIONS.c.id == id) & MAIL_SUBSCRIPTIONS.c.stopped_at.is_not(None)
            done = connection.execute(update(MAIL_SUBSCRIPTIONS).where(own).values(stopped_at=None, stopped_by=None))
            if done.rowcount:
                record(connection, AuditEntry(now, "change", by, "resume mail", id))

    def last_sent(self, subscription: str) -> int | None:
        """Return when the newest mail to it left, or None."""
        sent = (MAIL_SENDS.c.subscription == subscription) & (MAIL_SENDS.c.state == "sent")
        ((last,),) = self._database.rows(select(func.max(MAIL_SENDS.c.done_at)).where(sent))
        return None if last is None else int(last)

    def queue(self, mail: Queued, now: int) -> bool:
        """Let a mail wait to be sent; return False where this period's was made before. Older ones give way to it."""
        values = {
            "subscription": mail.subscription,
            "period": mail.period,
            "state": "queued",
            "period_end": mail.period_end,
            "made_at": now,
            "attempts": 0,
            "lost": 0,
            "next_at": now,
            "told": "",
            "body": mail.body,
        }
        older = (
            (MAIL_SENDS.c.subscription == mail.subscription)
            & (MAIL_SENDS.c.state == "queued")
            & (MAIL_SENDS.c.period_end < mail.period_end)
        )
        with self._database.writing() as connection:
            # The number of rows is not told by all drivers where a conflict left the row out.
            row = (
                self._database.insert(MAIL_SENDS)
                .values(**values)
                .on_conflict_do_nothing()
                .returning(MAIL_SENDS.c.period)
            )
            if connection.execute(row).first() is None:
                return False
            took = _ended("dropped", now, f"not sent in time; {mail.period} took its place")
            connection.execute(update(MAIL_SENDS).where(older).values(took))
            connection.execute(delete(MAIL_SENDS).where(MAIL_SENDS.c.made_at < now - _KEPT_US))
            return True

    def made(self, subscription: str, period: str) -> Send | None:
        """Return what became of a period's mail, or None where none was made."""
        own = (MAIL_SENDS.c.subscription == subscription) & (MAIL_SENDS.c.period == period)
        rows = self._database.rows(_sends().where(own))
        return Send(*rows[0]) if rows else None

    def claim(self, now: int) -> Queued | None:
        """Return the mail that has waited longest of those that are due, and keep others from it; None: none is."""
        due = (MAIL_SENDS.c.state == "queued") & (MAIL_SENDS.c.next_at <= now)
        with self._database.writing() as connection:
            _take_back(connection, now)
            _leave_stopped(connection, now)
            waiting = (
                select(MAIL_SENDS)
                .where(due)
                .order_by(MAIL_SENDS.c.next_at, MAIL_SENDS.c.made_at, MAIL_SENDS.c.subscription)
                .limit(1)
                .with_for_update(skip_locked=True)
            )
            row = connection.execute(waiting).first()
            if row is None:
                return None
            one = (MAIL_SENDS.c.subscription == row.subscription) & (MAIL_SENDS.c.period == row.period)
            claimed = {"state": "sending", "claimed_at": now, "attempts": row.attempts + 1}
            connection.execute(update(MAIL_SENDS).where(one).values(claimed))
            whose = _subscription(connection, row.subscription)
        if whose is None:
            raise AssertionError("BUG: a mail of no subscription")
        return Queued(
            row.subscription, row.period, row.period_end, row.body, whose.address, whose.list, row.attempts + 1
        )

    def note(self, mail: Queued, state: State, told: str, now: int, next_at: int | None = None) -> None:
        """Write down what became of a claimed mail; back in the queue it is due at `next_at`."""
        values = _ended(state, now, told)
        if state == "queued":
            values = {"state": state, "told": told, "next_at": next_at or now, "claimed_at": None}
        own = (MAIL_SENDS.c.subscription == mail.subscription) & (MAIL_SENDS.c.period == mail.period)
        self._database.change(update(MAIL_SENDS).where(own & (MAIL_SENDS.c.state == "sending")).values(values))

    def hurry(self, now: int) -> int:
        """Make all that waits due now, and return how many that are."""
        waits = (MAIL_SENDS.c.state == "queued") & (MAIL_SENDS.c.next_at > now)
        return self._database.change(update(MAIL_SENDS).where(waits).values(next_at=now))

    def sends(self, since: int = 0, states: Sequence[State] = ()) -> list[Send]:
        """Return what became of mails made since then, the newest first."""
        chosen = MAIL_SENDS.c.made_at >= since
        if states:
            chosen &= MAIL_SENDS.c.state.in_(states)
        newest = _sends().where(chosen).order_by(MAIL_SENDS.c.made_at.desc(), MAIL_SUBSCRIPTIONS.c.address)
        return [Send(*row) for row in self._database.rows(newest)]


def _subscriptions() -> Select[Any]:
    return select(*columns_of(Subscription, MAIL_SUBSCRIPTIONS))


def _subscription(connection: Connection, id: str) -> Subscription | None:  # noqa: A002  the field's name
    row = connection.execute(_subscriptions().where(MAIL_SUBSCRIPTIONS.c.id == id)).first()
    return Subscription(*row) if row is not None else None


def _sends() -> Select[Any]:
    both = {column.name: column for column in (*MAIL_SUBSCRIPTIONS.c, *MAIL_SENDS.c)}
    found = select(*(both[name] for name in Send.__slots__))
    return found.join_from(MAIL_SENDS, MAIL_SUBSCRIPTIONS, MAIL_SUBSCRIPTIONS.c.id == MAIL_SENDS.c.subscription)


def _ended(state: State, now: int, told: str) -> dict[str, object]:
    """Return the values of a mail that is done with: its bytes are forgotten."""
    return {"state": state, "told": told, "done_at": now, "claimed_at": None, "body": None}


def _take_back(connection: Connection, now: int) -> None:
    """End the claims of who died: once back into the queue, the second time for good."""
    dead = (MAIL_SENDS.c.state == "sending") & (MAIL_SENDS.c.claimed_at < now - CLAIM_US)
    connection.execute(update(MAIL_SENDS).where(dead & (MAIL_SENDS.c.lost > 0)).values(_ended("failed", now, _UNKNOWN)))
    again = {"state": "queued", "lost": 1, "next_at": now, "claimed_at": None}
    connection.execute(update(MAIL_SENDS).where(dead & (MAIL_SENDS.c.lost == 0)).values(again))


def _leave_stopped(connection: Connection, now: int) -> None:
    """Drop what came back into the queue after its reader had stopped it: it was being tried at that moment."""
    stopped = select(MAIL_SUBSCRIPTIONS.c.id).where(MAIL_SUBSCRIPTIONS.c.stopped_at.is_not(None))
    waits = (MAIL_SENDS.c.state == "queued") & MAIL_SENDS.c.subscription.in_(stopped)
    connection.execute(update(MAIL_SENDS).where(waits).values(_ended("dropped", now, _STOPPED)))
