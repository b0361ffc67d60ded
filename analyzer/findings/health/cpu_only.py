"""Work for processors on hosts with GPUs: it holds no GPU there, or holds some and leaves them alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, notice_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import gpu_hours, length_of_time, tenths

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "fleet/cpu_only"


@dataclass(frozen=True, slots=True)
class HostWork:
    """What one run computed on one host, in the hours in which it computed anything worth the name."""

    run_id: str
    name: str | None
    team: str | None
    node: str
    gpus: int  # that it held there, and left alone
    ms: int
    cpu_ms: int
    free_ms: int  # GPU time on the host meanwhile that nobody held
    runs_beside: int  # that held GPUs there in the same hours


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each run that needs no GPU host, by run."""
    select, told = statements("findings/health/cpu_only.sql")
    values: dict[str, object] = {
        "start": span.start_us,
        "end": span.end_us,
        "millicores": LIMITS.cpu_only_millicores,
        "untouched": LIMITS.untouched_permille,
    }
    if not session.row(told)[0]:
        yield span.unjudged(_RULE, "no processor time of runs was told (run_samples, process_samples)")
        return
    works = [HostWork(*row) for row in session.rows(select, values)]
    for _, parts in groupby(works, lambda work: work.run_id):
        yield from _judged(tuple(parts))


def _judged(works: Sequence[HostWork], limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice where one run computed for long enough; `works` are its hosts, at least one."""
    ms, first = max(work.ms for work in works), works[0]
    if ms < limits.cpu_only_ms:
        return
    subject = first.name or first.run_id
    cores = sum(work.cpu_ms * 10 // work.ms for work in works)
    gpus, nodes = sum(work.gpus for work in works), ", ".join(work.node for work in works[:3])
    nodes += f" and {len(works) - 3} more" if len(works) > 3 else ""
    beside = max(work.runs_beside for work in works) > (1 if gpus else 0)
    left = f"leaves the {gpus} GPUs that it holds alone" if gpus else "holds no GPU"
    also = ", beside runs that need GPUs and cores" if beside else ""
    yield Notice(
        notice_id(_RULE, first.run_id),
        _RULE,
        subject,
        f"keeps {tenths(cores)} cores of {nodes} busy for {length_of_time(ms)} and {left}{also}: "
        "give it to hosts without GPUs, or ask for no GPU",
        "run" if gpus else "platform",
        "high" if gpus else "medium",
        node=first.node if len(works) == 1 else None,
        run_ids=(first.run_id,),
        team=first.team,
        evidence=(
            EvidenceLine("processors", f"{tenths(cores)} cores on average", f"{length_of_time(ms)} long"),
            EvidenceLine("GPUs", f"{gpus} held, none ever busy" if gpus else "none held"),
            EvidenceLine(
                "free meanwhile", f"{gpu_hours(sum(work.free_ms for work in works))} GPU-hours on these hosts"
            ),
        ),
        wrong_if="the GPUs are used by a part of the run that nobody measures, or these cores are spare",
    )
