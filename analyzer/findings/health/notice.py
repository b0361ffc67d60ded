"""What a notice is (something to look at that claims no GPU-second), how one is made, what rules read, their numbers.

Hours come from the tier of hours as far as that reaches, and from samples where nobody has rolled up yet. They lie in
temporary tables of the session that asks (notice_gpu_hours, notice_run_hours, notice_port_hours, notice_process_hours,
notice_holds). docs/notices.md is tested against the numbers.
"""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field

from agent.wire.units import DAY_US, HOUR_MS, HOUR_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.words import rows
from analyzer.ids import short_id
from analyzer.ledger.coverage import Unjudged
from analyzer.ledger.thresholds import Thresholds
from analyzer.queries.statements import PARAMETER, run, statements
from analyzer.states import Confidence
from analyzer.text.as_json import WHOLE, Name, Sentence
from analyzer.text.words import brief_hours, brief_percent, counted, gib, length_of_time, tenths
from collector.lake.series import TableExtent
from collector.store.session import Session
from collector.tier_tables import tiered


@dataclass(frozen=True, slots=True)
class NoticeLimits:
    """Shares are permille, times milliseconds, memory bytes. "Ours" marks a number that nobody has published."""

    # A CPU-only run on a GPU host, or one that holds GPUs and leaves them alone.
    cpu_only_ms: int = 7_200_000  # job_defense_shield cancels a run that never used its GPU after 120 minutes
    cpu_only_millicores: int = 1_000  # ours: less than one core is a daemon, not work
    long_start_ms: int = Thresholds().starting_ms  # what the ledger gives any start
    long_start_permille: int = 20  # ours: a fiftieth of what a run or service holds, spent on starting
    untouched_permille: int = 950  # ours: what starting takes of a run that never worked

    # A service beside training.
    mixed_ms: int = 3_600_000  # ours: shorter than an hour is a change of shift
    missed_permille: int = 10  # ours: of the service's time over its own promise; an SLO of 99% allows no more
    missed_factor: int = 2  # ours: worse by half again may be the time of day
    slowed_permille: int = 100  # ours: what training lost more, throttled or starved, than when alone

    # Jobs that wait while GPUs are free.
    waited_ms: int = 3_600_000  # ours: less is the scheduler's own rhythm; a whole hour of the ledger is looked at
    waited_gpu_hours: int = 8  # ours: one host's hour
    # The scheduler's words for "no room now". Others mean that the run waits for something else.
    # Slurm, job reason codes: https://slurm.schedmd.com/job_reason_codes.html
    # Kubernetes, PodScheduled=False: https://kubernetes.io/docs/concepts/scheduling-eviction/
    no_room: tuple[str, ...] = ("resources", "priority", "reqnodenotavail", "unschedulable", "insufficient")

    # GPU too large for its run: job_defense_shield, gpu_model_too_powerful.py, and jobstats' advice of MIG.
    large_run_ms: int = 3_660_000  # 61 minutes
    large_gpu_ms: int = 86_400_000  # 24 GPU-hours
    large_utilization_permille: int = 150
    large_memory_bytes: int = 10_000_000_000
    large_dram_permille: int = 100  # ours: of HBM's bandwidth, so that nothing streams through little memory
    large_tensor_permille: int = 50  # ours
    large_millicores_per_gpu: int = 12_000
    large_host_bytes_per_gpu: int = 32_000_000_000
    small_sku_factor: int = 2  # ours: a GPU of half the memory or less is worth the move

    # HBM: 10 to 20% are to stay free in steady work (the targets of those who run such fleets).
    hbm_full_permille: int = 900
    hbm_hours: int = 3  # ours: in whole hours of holding, the first left out
    hbm_flat_permille: int = 970  # ours: least over most; XLA takes 75% and vLLM 90% at the start and keep them

    # Links. DCGM, dcgm_gpu_hardware_limits.h: 8 replays a minute are the most that are recommended.
    replays_per_hour: int = 480
    # Of an RDMA port: ibdiagnet's bound of 10^-12 bit errors is 0.4 a second at 400 Gbit/s, and less of slower ports.
    # https://docs.nvidia.com/networking/display/ibdiagnetusermanualv211/bit+error+rate+(ber)
    port_errors_per_hour: int = 1_440
    port_errors_factor: int = 10  # ours: of what the ports beside it have
    peers: int = 3  # ours: of fewer there is no majority

    # Drivers: no list of bad ones, only the fleet's own majority.
    majority_permille: int = 500

    # Memory and Xid. Corrected errors: ours; DCGM's own bound (10 a minute) is marked there as a dummy.
    corrected_per_week: int = 1_000
    corrected_factor: int = 2
    weeks: int = 3
    # NVIDIA, Memory Error Management, RMA policy: the flag comes with 512 remaps, or with the ninth of one bank.
    remapped_rows: int = 8
    # NVIDIA, Xid catalog and Health Validation's checks: those whose remedy is a reset, a drain or a new board.
    hardware_xids: tuple[int, ...] = (48, 63, 64, 74, 79, 94, 95)

    # Agents.
    silent_ms: int = 3_600_000  # ours: longer than a restart, shorter than the two days in which hours close
    missed_beats_permille: int = 20  # ours: of the agent's time; an interval that is missed twice an hour is below it
    clock_offset_ms: int = 1_000  # ours: a sample's length; the ledger trusts edges only as near as the clocks

    # Memory that nobody holds.
    zombie_bytes: int = 500_000_000  # a CUDA context alone takes 300 to 500 MB
    zombie_utilization_permille: int = 500  # ours: of a whole hour; what computes has somebody, however little it keeps
    zombie_ms: int = 1_800_000  # ours: as long as the ledger waits to call a GPU abandoned

    # Processes of others on a GPU that a run holds.
    foreign_ms: int = 600_000  # ours: GPU time; less is somebody's look at a GPU
    foreign_sm_permille: int = Thresholds().foreign_permille  # as the ledger, which divides by it
    foreign_cpu_millicores: int = Thresholds().foreign_millicores

    # Tensor cores unused. DCGM's guidance: SM activity under 50% is likely ineffective use by itself.
    precision_sm_permille: int = 500
    precision_tensor_permille: int = 20
    precision_fp32_permille: int = 100  # ours
    precision_gpu_ms: int = 7_200_000  # ours: two hours, so that no start-up or evaluation is meant

    # Stages of CPU and GPU in one run: processors full, GPUs at about 20%, by turns.
    packed_gpu_permille: int = 350
    packed_cpu_full_permille: int = 800
    packed_gpu_quiet_permille: int = 100
    packed_gpu_busy_permille: int = 500
    packed_share_permille: int = 200  # ours: of the minutes, each of both stages
    packed_minutes: int = 120
    packed_turns: int = 4


LIMITS = NoticeLimits()
MIG_CAPABLE = ("A30", "A100", "H100", "H200", "H20", "GH200", "B200", "B300", "GB200", "GB300")  # NVIDIA MIG User Guide


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
