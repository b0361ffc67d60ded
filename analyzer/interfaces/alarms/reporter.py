"""Look at the ledger, say what is new, and hand on what waits; once after each pass of the analysis."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analyzer.errors import AnalyzerError
from analyzer.interfaces.alarms.alarm import Alarm, Event, alertmanager_body, present, turn
from analyzer.interfaces.alarms.hook import AlarmError, post, read_back, send_due, spelled, waiting_event
from analyzer.ledger.coverage import newest_hour_end
from analyzer.period import local, midnight
from collector.errors import CollectorError
from collector.registry import AlarmChange, AlarmPost, Alarms, KeptAlarm

if TYPE_CHECKING:
    from analyzer.interfaces.alarms.settings import AlarmSettings
    from analyzer.reports.reader import Reader
    from analyzer.settings.settings import Settings

_LOG = logging.getLogger(__name__)
LASTS_US = 3_600_000_000  # for so long Alertmanager keeps an alarm that nobody tells again: we are gone then
_ENDED_TOLD_US = 900_000_000  # for so long it is told that one has ended


@dataclass(frozen=True, slots=True)
class _TurnResult:
    """What one turn came to; `failing` says which receiver takes nothing now, and why."""

    lasting: int = 0
    said: int = 0
    ended: int = 0
    failing: str | None = None


class AlarmReporter:
    """Tells a site's alarms. `read` opens a reader of the ledger; nothing is raised, a failure is logged once."""

    def __init__(self, settings: "AlarmSettings", alarms: Alarms, read: "Callable[[], Reader]") -> None:
        self._settings = settings
        self._alarms = alarms
        self._read = read
        self.last = _TurnResult()

    def __call__(self, now: int) -> _TurnResult:
        """Take one turn at a moment, microseconds UTC."""
        try:
            done = self._turn(now)
        except (AnalyzerError, CollectorError) as error:
            done = replace(self.last, failing=str(error))
        if done.failing != self.last.failing:
            _LOG.warning("alarms: %s", done.failing or "receivers accept alarms again")
        self.last = done
        return done

    def _turn(self, now: int) -> _TurnResult:
        reader = self._read()
        with reader.session:
            if newest_hour_end(reader.session) is None:
                return _TurnResult()
            alarms = present(reader, self._settings)
        said, ended = self._remember(alarms, reader.settings, now)
        failing = [self._tell_alertmanager(alarms, reader.settings, now)]
        failing += [each.told for each in send_due(self._alarms, self._settings, now) if each.state != "sent"]
        return _TurnResult(len(alarms), said, ended, next((one for one in failing if one), None))

    def _remember(self, alarms: Sequence[Alarm], site: "Settings", now: int) -> tuple[int, int]:
        """Write down what is new and what is over, with what the webhook is to get of it."""
        kept = {one.id: one for one in self._alarms.lasting()}
        today = self._alarms.said_since(midnight(local(now, site.timezone).date(), site.timezone))
        known = {one.id: one.said_at is not None for one in kept.values()}
        change = turn(alarms, known, lambda team: today.get(team, 0), self._settings.a_day)

        def post_of(event: Event, alarm: Alarm) -> AlarmPost | None:
            if not self._settings.webhook:
                return None
            opened_at = kept[alarm.id].opened_at if alarm.id in kept else now
            return waiting_event(event, alarm, opened_at, now, site.cluster, site.currency)

        opened = [_kept(alarm, now) for alarm in change.opened]
        said = {alarm.id: post_of("opened", alarm) for alarm in change.said}
        ended = {id_: post_of("ended", read_back(kept[id_].body)) if known[id_] else None for id_ in change.ended}
        self._alarms.change(AlarmChange(opened, said, ended), now)
        return len(said), sum(known[id_] for id_ in change.ended)

    def _tell_alertmanager(self, alarms: Sequence[Alarm], site: "Settings", now: int) -> str | None:
        """Tell it all that lasts and was said, and what has just ended; return what went wrong, or None."""
        if not self._settings.alertmanager:
            return None
        said = {one.id for one in self._alarms.lasting() if one.said_at is not None}
        over = [(read_back(one.body), one.ended_at or now) for one in self._alarms.ended_since(now - _ENDED_TOLD_US)]
        lasting = [alarm for alarm in alarms if alarm.id in said]
        if not lasting and not over:
            return None
        body = alertmanager_body(lasting, over, now + LASTS_US, site.cluster, site.currency)
        try:
            post(f"{self._settings.alertmanager}/api/v2/alerts", body, {}, self._settings.ca)
        except AlarmError as error:
            return f"Alertmanager: {error}"
        return None


def _kept(alarm: Alarm, now: int) -> KeptAlarm:
    return KeptAlarm(alarm.id, now, alarm.team, alarm.urgent, None, None, spelled(alarm))
