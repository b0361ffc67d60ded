"""What was booked of a run, held against what its phases sum to."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from analyzer.states import BOOKINGS

_AVOIDABLE = frozenset(f"{one.state}/{one.cause or ''}" for one in BOOKINGS if one.klass == "avoidable")
_HALF = 0.5  # of a finding's time, or of a hang's, that must be true or found
_TOLD_MS = 180_000  # what the table of kinds names
_TRIFLE_MS = 36_000  # a hundredth of a GPU-hour: less of avoidable time is no case of a dollar
_BEGIN, _END = "<!-- published -->\n", "<!-- published: end -->"
BARS = {
    "starved precision": 0.95,
    "starved recall": 0.90,
    "starved cause": 0.85,
    "high findings right": 0.95,
    "hangs found": 0.90,
    "across racks found or not evaluated": 0.80,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of the product: what it claims of which run."""

    run_id: str
    label: str
    confidence: str
    milliseconds: int
    true_milliseconds: float  # of the run, that may rightly be told so


@dataclass(frozen=True, slots=True)
class Scored:
    """One run: its truth and what was booked, GPU-milliseconds by label; what is accepted is told as that."""

    kind: str
    fed: bool
    board: str
    interval: float
    truth: Mapping[str, float]
    booked: Mapping[str, float]
    suspected: Mapping[str, float]  # of what stayed unexplained, by the cause that lacked evidence
    may_suspect: Sequence[str]
    findings: Sequence[Finding]
    not_evaluated: Sequence[str]  # states of which a rule lacked a signal
    usd_per_ms: float

    def shared(self, label: str) -> float:
        """Return the time that is truly of a label and was booked so."""
        return min(self.truth.get(label, 0.0), self.booked.get(label, 0.0))


def settled(
    truth: Mapping[str, float], booked: Mapping[str, float], accepts: Mapping[str, set[str]]
) -> dict[str, float]:
    """Return what was booked, with what is accepted for a label of the truth told as that label, as far as it lacks."""
    told: dict[str, float] = defaultdict(float, booked)
    for label, others in accepts.items():
        for other in sorted(others):
            lacking = max(0.0, truth.get(label, 0.0) - told[label])
            spare = max(0.0, told[other] - truth.get(other, 0.0))
            told[label] += min(lacking, spare)
            told[other] -= min(lacking, spare)
    return {label: amount for label, amount in told.items() if amount > 0}


def _of(amounts: Mapping[str, float], state: str) -> float:
    return sum(amount for label, amount in amounts.items() if label.partition("/")[0] == state)


def avoidable(amounts: Mapping[str, float]) -> float:
    """Return the time of what somebody could give back."""
    return sum(amount for label, amount in amounts.items() if _is_avoidable(label))


def _is_avoidable(label: str) -> bool:
    """Return whether somebody could give it back; what is starved by a cause that the ledger has not is so too."""
    return label in _AVOIDABLE or label.startswith("starved/")


def scores(runs: Sequence[Scored]) -> dict[str, Any]:
    """Return the figures of all runs together, each a share or None where there is nothing to count."""
    true = sum(_of(run.truth, "starved") for run in runs)
    told = sum(_of(run.booked, "starved") for run in runs)
    both = sum(min(_of(run.truth, "starved"), _of(run.booked, "starved")) for run in runs)
    cause = sum(sum(run.shared(label) for label in run.truth if label.startswith("starved/")) for run in runs)
    high = [one for run in runs for one in run.findings if one.confidence == "high"]
    hangs = [run for run in runs if run.truth.get("communicating/hang")]
    racks = [run for run in runs if run.truth.get("communicating/cross_rack")]
    lossy = [run for run in runs if avoidable(run.truth) > _TRIFLE_MS]
    spent = {name: sum(avoidable(getattr(run, name)) * run.usd_per_ms for run in runs) for name in ("truth", "booked")}
    return {
        "starved precision": _ratio(both, told),
        "starved recall": _ratio(both, true),
        "starved cause": _ratio(cause, both),
        "starved, cause told as unknown": _ratio(sum(run.booked.get("starved/unknown", 0.0) for run in runs), told),
        "high findings right": _ratio(sum(is_right(one) for one in high), len(high)),
        "high findings": len(high),
        "high findings right, by GPU time": _ratio(
            sum(one.milliseconds for one in high if is_right(one)), sum(one.milliseconds for one in high)
        ),
        "findings on controls": sum(len(run.findings) for run in runs if run.fed),
        "controls": sum(run.fed for run in runs),
        "hangs found": _ratio(
            sum(run.shared("communicating/hang") > _HALF * run.truth["communicating/hang"] for run in hangs), len(hangs)
        ),
        "across racks found or not evaluated": _ratio(
            sum(_crossing(run) for run in racks), sum(run.truth["communicating/cross_rack"] for run in racks)
        ),
        "across racks booked": _ratio(
            sum(run.shared("communicating/cross_rack") for run in racks),
            sum(run.truth["communicating/cross_rack"] for run in racks),
        ),
        "dollars avoidable": spent["truth"],
        "dollars booked": spent["booked"],
        "dollars off, sum": _ratio(abs(spent["booked"] - spent["truth"]), spent["truth"]),
        "dollars off, median run": median(
            abs(avoidable(run.booked) - avoidable(run.truth)) / avoidable(run.truth) for run in lossy
        )
        if lossy
        else None,
        "unexplained GPU-hours": sum(_of(run.booked, "unexplained") for run in runs) / 3.6e6,
        "of them wrongly suspected": sum(wrongly_suspected(run) for run in runs) / 3.6e6,
        "of them rightly suspected": sum(sum(run.suspected.values()) - wrongly_suspected(run) for run in runs) / 3.6e6,
    }


def is_right(one: Finding) -> bool:
    """Return whether at least half of what a finding claims is truly so."""
    return one.true_milliseconds >= _HALF * one.milliseconds


def wrongly_suspected(run: Scored) -> float:
    """Return the unexplained time whose suspicion names a cause that the run did not suffer from."""
    causes: dict[str, float] = defaultdict(float)
    for label, amount in run.truth.items():
        causes[label.partition("/")[2]] += amount if _is_avoidable(label) else 0.0
    return sum(
        max(0.0, amount - causes[cause]) for cause, amount in run.suspected.items() if cause not in run.may_suspect
    )


def _crossing(run: Scored) -> float:
    """Return the time across racks that was found; all of it where the rule said which signal it lacked."""
    said = "cross_rack" in run.not_evaluated
    return run.truth["communicating/cross_rack"] if said else run.shared("communicating/cross_rack")


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def kept(found: Mapping[str, Any]) -> dict[str, bool]:
    """Return which bars are kept; what was not there to measure keeps none and breaks none."""
    held = {f"{name} >= {bar:.0%}": found[name] >= bar for name, bar in BARS.items() if found[name] is not None}
    held["no finding on a control"] = found["findings on controls"] == 0
    for name in ("dollars off, sum", "dollars off, median run"):
        if found[name] is not None:
            held[f"{name} <= 10%"] = found[name] <= 0.10
    return held


def score_lines(found: Mapping[str, Any]) -> list[str]:
    """Return the figures as lines."""
    lines = []
    for name, value in found.items():
        bar = f"   (bar {BARS[name]:.0%})" if name in BARS else ""
        if value is None:
            told = "none"
        elif name in BARS or name.startswith(("dollars off", "high findings right", "across", "starved,")):
            told = f"{value:.1%}"
        else:
            told = f"{value:,.2f}" if isinstance(value, float) else str(value)
        lines.append(f"{name:40} {told:>12}{bar}")
    return lines


def section(found: Mapping[str, Any]) -> str:
    """Return the figures that were recorded, as the README has them."""
    about = f"Seeds {', '.join(map(str, found['seeds']))}, {found['machine']['date']}:"
    return "\n".join([about, "", "```text", *score_lines(found["scores"]), "```", ""])


def put(document: str, text: str) -> str:
    """Return a document with what stands between its two comments replaced."""
    before, begin, rest = document.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return before + begin + text + end + after


def kind_lines(runs: Sequence[Scored]) -> list[str]:
    """Return a line for each kind: GPU-hours truly avoidable, booked rightly, not, and wrongly; and what was told."""
    lines = [f"{'kind':24}{'runs':>5}{'true':>8}{'right':>8}{'missed':>8}{'false':>8}  what was told that is not so"]
    by_kind: dict[str, list[Scored]] = {}
    for run in runs:
        by_kind.setdefault(run.kind, []).append(run)
    for kind, of in by_kind.items():
        true = sum(avoidable(run.truth) for run in of)
        right = sum(run.shared(label) for run in of for label in run.truth if _is_avoidable(label))
        wrong = _wrong(of)
        most = sorted(wrong.items(), key=lambda one: -one[1])
        false = sum(amount for label, amount in wrong.items() if _is_avoidable(label))
        told = ", ".join(f"{label} {amount / 3.6e6:.1f}" for label, amount in most[:4] if amount > _TOLD_MS)
        figures = "".join(f"{amount / 3.6e6:8.1f}" for amount in (true, right, true - right, false))
        lines.append(f"{kind:24}{len(of):5}{figures}  {told}")
    return lines


def _wrong(runs: Iterable[Scored]) -> dict[str, float]:
    """Return the time booked beyond what is true, by label; what stayed unexplained with its suspicion."""
    found: dict[str, float] = defaultdict(float)
    for run in runs:
        for label, amount in run.booked.items():
            over = amount - run.truth.get(label, 0.0)
            if over > 0 and not label.startswith(("unexplained", "unobserved", "unallocated")):
                found[label] += over
        for label, amount in run.suspected.items():
            found[f"? {label}"] += amount
    return found
