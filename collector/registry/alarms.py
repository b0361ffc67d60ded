"""Alarms as the site remembers them: open ones, when each was said, and what waits for the webhook.

An alarm is said by the process that books the ledger, and there is one; were there two, the row that both would write
decides which of them says it. What the webhook gets waits here until it is taken, so that a restart loses nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement, Connection, delete, func, select, true, update

from collector.registry.tables import ALARM_POSTS, ALARMS, Database, columns_of, values_of

State = Literal["queued", "sent", "failed"]
KEPT_US = 90 * 86_400_000_000  # a quarter of what was said
WAITING_MOST = 10_000  # posts; beyond them the oldest go first
_FORGOTTEN = "left out: too many were waiting"


@dataclass(frozen=True, slots=True)
class KeptAlarm:
    """One alarm. `said_at` None: not said yet; `ended_at` None: it lasts. `body` is the alarm as JSON."""

    id: str
    opened_at: int
    team: str | None
    urgent: bool
    said_at: int | None
    ended_at: int | None
    body: str


@dataclass(frozen=True, slots=True)
class AlarmPost:
    """One message to the webhook; `body` is None once it is done."""

    id: str
    state: State
    made_at: int
    attempts: int
    next_at: int
    done_at: int | None
    told: str
    body: str | None


@dataclass(frozen=True, slots=True)
class AlarmChange:
    """What one look changes: alarms that are new; those now said, and ended, each with its post (None: no webhook)."""

    opened: Sequence[KeptAlarm]
    said: Mapping[str, AlarmPost | None]
    ended: Mapping[str, AlarmPost | None]


class Alarms:
    """The site's alarms. Safe to use from several processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lasting(self) -> list[KeptAlarm]:
        """Return those that have not ended, the oldest first."""
        found = select(*columns_of(KeptAlarm, ALARMS)).where(ALARMS.c.ended_at.is_(None))
        return [KeptAlarm(*row) for row in self._database.rows(found.order_by(ALARMS.c.opened_at, ALARMS.c.id))]

    def ended_since(self, moment: int) -> list[KeptAlarm]:
        """Return those that were said and have ended since a moment."""
        ended = ALARMS.c.said_at.is_not(None) & (ALARMS.c.ended_at >= moment)
        return [KeptAlarm(*row) for row in self._database.rows(select(*columns_of(KeptAlarm, ALARMS)).where(ended))]

    def said_since(self, moment: int) -> dict[str | None, int]:
        """Return how many were said of each team since a moment, the urgent ones aside."""
        said = (ALARMS.c.said_at >= moment) & ALARMS.c.urgent.is_(False)
        rows = self._database.rows(select(ALARMS.c.team, func.count()).where(said).group_by(ALARMS.c.team))
        return {team: int(count) for team, count in rows}

    def change(self, change: "AlarmChange", now: int) -> None:
        """Remember one turn, all of it or nothing. Of an alarm that another process has said, nothing is posted."""
        with self._database.writing() as connection:
            for one in change.opened:
                connection.execute(self._database.insert(ALARMS).values(**values_of(one)).on_conflict_do_nothing())
            for id_, post in change.said.items():
                if _marked(connection, id_, ALARMS.c.said_at.is_(None), said_at=now) and post is not None:
                    self._put(connection, post)
            for id_, post in change.ended.items():
                if _marked(connection, id_, true(), ended_at=now) and post is not None:
                    self._put(connection, post)
            _forget(connection, now)

    def _put(self, connection: Connection, post: "AlarmPost") -> None:
        connection.execute(self._database.insert(ALARM_POSTS).values(**values_of(post)).on_conflict_do_nothing())

    def due(self, now: int, most: int) -> list[AlarmPost]:
        """Return the posts whose turn it is, the oldest first."""
        turn = (ALARM_POSTS.c.state == "queued") & (ALARM_POSTS.c.next_at <= now)
        found = select(*columns_of(AlarmPost, ALARM_POSTS)).where(turn)
        ordered = found.order_by(ALARM_POSTS.c.made_at, ALARM_POSTS.c.id).limit(most)
        return [AlarmPost(*row) for row in self._database.rows(ordered)]

    def posts(self, states: Sequence[State], most: int) -> list[AlarmPost]:
        """Return posts in these states, the newest first."""
        found = select(*columns_of(AlarmPost, ALARM_POSTS)).where(ALARM_POSTS.c.state.in_(states))
        ordered = found.order_by(ALARM_POSTS.c.made_at.desc(), ALARM_POSTS.c.id).limit(most)
        return [AlarmPost(*row) for row in self._database.rows(ordered)]

    def settle(self, post: AlarmPost) -> None:
        """Note what became of a post."""
        values = {name: value for name, value in values_of(post).items() if name not in ("id", "made_at")}
        self._database.change(update(ALARM_POSTS).where(ALARM_POSTS.c.id == post.id).values(**values))


def _marked(connection: Connection, id_: str, when: ColumnElement[bool], **values: int) -> bool:
    """Change the lasting alarm of an id, and return whether it was there to be changed."""
    lasts = (ALARMS.c.id == id_) & ALARMS.c.ended_at.is_(None) & when
    return connection.execute(update(ALARMS).where(lasts).values(**values)).rowcount == 1


def _forget(connection: Connection, now: int) -> None:
    connection.execute(delete(ALARMS).where(ALARMS.c.ended_at < now - KEPT_US))
    connection.execute(delete(ALARM_POSTS).where(ALARM_POSTS.c.done_at < now - KEPT_US))
    newest = (
        select(ALARM_POSTS.c.id)
        .where(ALARM_POSTS.c.state == "queued")
        .order_by(ALARM_POSTS.c.made_at.desc())
        .limit(WAITING_MOST)
    )
    waits = (ALARM_POSTS.c.state == "queued") & ALARM_POSTS.c.id.not_in(newest)
    connection.execute(update(ALARM_POSTS).where(waits).values(state="failed", done_at=now, told=_FORGOTTEN, body=None))
