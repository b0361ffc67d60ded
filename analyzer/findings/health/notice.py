"""What a notice is (something to look at that claims no GPU-second), how one is made, and what rules read.

Hours come from the tier of hours as far as that reaches, and from samples where nobody has rolled up yet. They lie in
temporary tables of the session that asks (notice_gpu_hours, notice_run_hours, notice_port_hours, notice_process_hours,
notice_holds).
"""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field

from agent.wire.units import DAY_US, HOUR_MS, HOUR_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS
from analyzer.findings.words import rows
from analyzer.ids import short_id
from analyzer.ledger.coverage import Unjudged
from analyzer.queries.statements import PARAMETER, run, statements
from analyzer.states import Confidence
from analyzer.text.as_json import WHOLE, Name, Sentence
from analyzer.text.words import brief_hours, brief_percent, counted, gib, length_of_time, tenths
from collector.lake.series import TableExtent
from collector.store.session import Session
from collector.tier_tables import tiered

Actor = Literal["run", "platform", "capacity"]
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to look at about one subject in one period. It claims no GPU time: what it costs stands in findings.

    The id depends on rule and subject alone, so that a notice keeps it from week to week (analyzer.ids.short_id with
    the prefix "n").
    """

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    id: str
    rule: str  # "hardware/pcie_width", "fleet/fragmentation"
    subject: Annotated[Name, Field(description="What people call it: a run's name, a host, a GPU, a queue.")]
    sentence: Sentence  # the number, what it means, what to do
    actor: Actor
    confidence: Confidence = "high"
    node: Name | None = None
    gpu_uuid: Name | None = None
    run_ids: tuple[Name, ...] = ()
    team: Name | None = None
    evidence: tuple[EvidenceLine, ...] = ()
    wrong_if: Annotated[Sentence, Field(description="What would prove it wrong; empty where it is a plain fact.")] = ""


@dataclass(frozen=True, slots=True)
class Span:
    """The period that is looked at: [start_us, end_us), microseconds UTC."""

    start_us: int
    end_us: int

    def unjudged(self, rule: str, missing: str) -> Unjudged:
        """Return that a rule could not be judged of the whole fleet, and which signal was missing."""
        return Unjudged(self.start_us // DAY_US * DAY_US, "fleet", rule, missing)


@dataclass(frozen=True, slots=True)
class NoticeWords:
    """What a rule says, as templates of the values that it judged: each evidence line is what, seen and a verdict.

    Beside Python's own format specs there are those of SPECS, with the unit that a value has: `{ms:time}`. `confidence`
    and `actor` are those of a rule that knows but one.
    """

    sentence: str
    evidence: Sequence[Sequence[str]] = ()
    wrong_if: str = ""
    actor: Actor = "platform"
    confidence: Confidence = "high"


# Format specs by the unit of the value: a share is permille, memory bytes, time milliseconds.
SPECS: Mapping[str, Callable[[Any], str]] = {
    "gib": gib,
    "hours": brief_hours,
    "decimal_hours": lambda ms: f"{ms / HOUR_MS:,.1f}",
    "percent": brief_percent,
    "tenths": tenths,
    "time": length_of_time,
}


class _Formatter(string.Formatter):
    """Formats templates of notices; `{runs:count run}` is a number with its noun, and what nobody told says so."""

    def format_field(self, value: Any, format_spec: str) -> Any:  # noqa: ANN401 - as Formatter has it
        if value is None and format_spec in SPECS:
            return "not told"
        if format_spec in SPECS:
            return SPECS[format_spec](value)
        word, _, noun = format_spec.partition(" ")
        return counted(value, noun) if word == "count" else super().format_field(value, format_spec)


_FORMATTER = _Formatter()


def noticed(
    rule: str,
    subject: str,
    values: Mapping[str, object],
    *,
    words_of: str | None = None,
    key: Sequence[str] | None = None,
    evidence: Sequence[EvidenceLine] | None = None,
    **other: Any,  # noqa: ANN401 - fields of a notice
) -> Notice:
    """Return a notice in the words of its rule (or of the row `words_of`), formatted with what it judged.

    Its id is made of `key`, else of rule and subject; `evidence` stands instead of the words' own lines.
    """
    words = NoticeWords(**rows("notice")[words_of or rule])

    def said(template: str) -> str:
        return _FORMATTER.vformat(template, (), values)

    lines = tuple(EvidenceLine(*map(said, line)) for line in words.evidence) if evidence is None else tuple(evidence)
    told = {"actor": words.actor, "confidence": words.confidence, "wrong_if": said(words.wrong_if)}
    identity = short_id("n", *(key if key is not None else (rule, subject)))
    return Notice(identity, rule, subject, said(words.sentence), evidence=lines, **told | other)


def values_of(row: Any, **more: object) -> dict[str, object]:  # noqa: ANN401 - any dataclass
    """Return the fields of a row by name, and beside them more values for the words."""
    return {field.name: getattr(row, field.name) for field in fields(row)} | more


# A rule counts in SQL, judges in pure functions, and says of whom it could not judge for want of which signal.
Rule = Callable[["Session", Span], Iterator[Notice | Unjudged]]


@dataclass(frozen=True, slots=True)
class NoticeRule(Generic[Row]):
    """A rule of one reading: the first statement of a file gives rows, and rows of one group are judged together.

    `untold` is the signal that is missing where the file's last statement says that nobody told it.
    """

    name: str
    file: str  # of findings/sql/health
    row: Callable[..., Row]
    judge: Callable[[Sequence[Row]], Iterator[Notice]]
    group: Callable[[Row], object] = id  # each row alone
    untold: str = ""

    def __call__(self, session: Session, span: Span) -> Iterator[Notice | Unjudged]:
        """Yield what is to be looked at, in the order of the rows, or that it could not be judged."""
        select, *others = statements(f"findings/health/{self.file}")
        if self.untold and not session.row(others[-1])[0]:
            yield span.unjudged(self.name, self.untold)
            return
        rows = [self.row(*row) for row in rows_of(session, span, select)]
        for _, group in groupby(rows, self.group):
            yield from self.judge(list(group))


def rows_of(session: Session, span: Span, statement: str, **values: object) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, which is given what it names: of the span, of `values`, and of the limits."""
    known = {"start": span.start_us, "end": span.end_us} | values
    names = set(PARAMETER.findall(statement))
    return session.rows(statement, {name: known[name] if name in known else getattr(LIMITS, name) for name in names})


_HOURS = {"gpu": "gpu_samples", "run": "run_samples", "port": "network_samples", "process": "process_samples"}


def gather(session: Session, span: Span) -> None:
    """Make the temporary tables of a period."""
    for name, table in _HOURS.items():
        create, from_hours, from_samples = statements(f"findings/health/hours/{name}.sql")
        session.execute(create)
        rolled = rolled_until(session, table)
        edge = min(max(span.start_us, rolled), span.end_us)
        if edge > span.start_us:
            session.execute(from_hours, {"start": span.start_us, "end": edge})
        if edge < span.end_us:
            session.execute(from_samples, {"start": edge, "end": span.end_us})
    run(session, "findings/health/holds.sql", start=span.start_us, end=span.end_us)


def rolled_until(session: Session, table: str) -> int:
    """Return until when the tiers of a table of samples are whole, at a whole hour; 0 where there are none."""
    return TableExtent.of(session, tiered(table)).rolled_until // HOUR_US * HOUR_US
