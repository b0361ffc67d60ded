"""The work that a profile is of: which runs of whom, in which hours."""

from dataclasses import dataclass
from typing import Any

from analyzer.errors import LedgerError
from analyzer.ledger.coverage import held_span, ledger_end, no_hours
from analyzer.ledger.run_facts import find_run
from analyzer.period import Calendar, Period
from analyzer.queries.statements import statements
from analyzer.text.words import counted, percent, plain
from collector.store.session import Session

_LEAST, _MOST = 3, 10  # runs that are chosen where nobody names them; a gate asks for three
_COVERED = 2  # one in so many parts of the team's GPU time is enough


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Of whom a profile is wanted, of which runs (as people type them) and of when; without runs they are chosen."""

    team: str | None = None
    project: str | None = None
    runs: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class HeldRun:
    """One of the runs, and what it held in the period; `micros` is None where a part of it has no price."""

    run_id: str
    name: str | None
    stage: str | None
    sku: str | None
    gpus: int
    started_at: int | None
    ended_at: int | None
    milliseconds: int
    micros: int | None
    team: str | None
    project: str | None


@dataclass(frozen=True, slots=True)
class Work:
    """The runs of a profile, those that held most first, and how they were chosen."""

    team: str | None
    project: str | None
    period: Period
    runs: tuple[HeldRun, ...]
    chosen: str

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Their ids."""
        return tuple(run.run_id for run in self.runs)

    @property
    def milliseconds(self) -> int:
        """GPU time that they held."""
        return sum(run.milliseconds for run in self.runs)

    @property
    def span_ms(self) -> int:
        """How long the period is."""
        return (self.period.end - self.period.start) // 1000

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called, that which held most first."""
        return tuple(dict.fromkeys(run.name or run.run_id for run in self.runs))

    def rows(self, session: Session, statement: str, **more: object) -> list[tuple[Any, ...]]:
        """Return what a statement says of these runs in the period."""
        given = {"start": self.period.start, "end": self.period.end, "runs": list(self.run_ids)} | more
        return session.rows(statement, {name: value for name, value in given.items() if f"${name}" in statement})


def read_work(session: Session, calendar: Calendar, asked: ProfileRequest) -> Work:
    """Return the runs that are meant.

    Raises:
        ConfigError: the period cannot be read.
        LedgerError: there is no such run or team, or the runs are not of the team that was named.
    """
    named = tuple(dict.fromkeys(find_run(session, text) for text in asked.runs))
    period = _period(session, calendar, asked, named)
    select, teams, _ = statements("capacity/profile/runs.sql")
    values: dict[str, object] = {"start": period.start, "end": period.end, "runs": list(named) or None}
    held = [HeldRun(*row) for row in session.rows(select, values | {"team": None, "project": None})]
    if named:
        return _of_named(asked, named, period, held)
    own = [one for one in held if _is_of(one, asked)]
    if not own:
        whose = f"team {asked.team!r}" if asked.team else f"project {asked.project!r}"
        known = ", ".join(plain(team) for (team,) in session.rows(teams)) or "none: name a teams file in the settings"
        raise LedgerError(f"the ledger has no run of {whose} in {period.label}; its teams are {known}")
    return _largest(asked, period, own)


def _is_of(one: HeldRun, asked: ProfileRequest) -> bool:
    return asked.team in (None, one.team) and asked.project in (None, one.project)


def _of_named(asked: ProfileRequest, named: tuple[str, ...], period: Period, held: list[HeldRun]) -> Work:
    if missing := set(named) - {one.run_id for one in held}:
        raise LedgerError(f"{min(missing)} held no GPU in {period.label}: leave --since out, or name another period")
    for one in held:
        if not _is_of(one, asked):
            what = f"team {one.team!r}" if asked.team not in (None, one.team) else f"project {one.project!r}"
            raise LedgerError(
                f"{one.run_id} is of {what}, not of what was asked for; the teams file says whose runs are whose"
            )
    team, project = ({getattr(one, key) for one in held} for key in ("team", "project"))
    return Work(
        asked.team or (team.pop() if len(team) == 1 else None),
        asked.project or (project.pop() if len(project) == 1 else None),
        period,
        tuple(held),
        f"{counted(len(held), 'run')}, named by the requester",
    )


def _largest(asked: ProfileRequest, period: Period, own: list[HeldRun]) -> Work:
    whole = sum(one.milliseconds for one in own)
    taken: list[HeldRun] = []
    for one in own[:_MOST]:
        if len(taken) >= _LEAST and sum(each.milliseconds for each in taken) * _COVERED >= whole:
            break
        taken.append(one)
    share = percent(sum(one.milliseconds for one in taken), whole)
    what = "the team's" if asked.team else "the project's"
    told = f"the {counted(len(taken), 'run')} that held most in the period: {share} of {what} GPU time"
    return Work(asked.team, asked.project, period, tuple(taken), told)


def _period(session: Session, calendar: Calendar, asked: ProfileRequest, named: tuple[str, ...]) -> Period:
    """Return the period that is asked for; else that of the runs, else the last complete week."""
    now = ledger_end(session)
    if asked.since or asked.until:
        return calendar.span(asked.since, asked.until, now)
    if not named:
        return calendar.last_complete_week(now)
    if (held := held_span(session, named)) is None:
        raise no_hours(session, named[0])
    return Period(*held, "the runs' own hours", calendar.timezone)
