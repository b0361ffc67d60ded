"""Hold the ledger's rows of each run against its labels, GPU by GPU and hour by hour.

What both say of one GPU and hour is matched as far as it goes; what is left over of the labels is set against what is
left over of the ledger, in proportion.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from analyzer.findings.ledger_findings import findings
from analyzer.states import booking
from bench.truth.kinds import Label
from bench.truth.runs import SimulatedRun, Truth
from bench.truth.tally import Key, Tally, key_of
from collector.store.session import Session

POSITIVE = 0.05  # of the held GPU time: TF Profiler calls a run input-bound from 5% on
MS_PER_HOUR = 3_600_000
FOREVER = 2**62


@dataclass
class Compared:
    """One run's labels and bookings, in milliseconds."""

    run: SimulatedRun
    truth: Truth
    booked: Counter[Label] = field(default_factory=Counter)
    matched: Counter[Label] = field(default_factory=Counter)
    crossed: Counter[tuple[Label, Label]] = field(default_factory=Counter)  # labelled, booked
    ledger_micros: int = 0  # of what is avoidable

    @property
    def held_ms(self) -> int:
        """Milliseconds of its GPUs."""
        return sum(self.truth.values())


def score(session: Session, runs: Iterable[SimulatedRun], prices: dict[str, float]) -> dict[Key, Tally]:
    """Return what there is to count, by cell."""
    compared = compare(session, runs)
    found: dict[Key, Tally] = defaultdict(Tally)
    for one in compared.values():
        found[key_of(one.run.cell)].add(tally(one, prices[one.run.draw.machine.sku]))
    for finding in findings(session, 0, FOREVER, with_evidence=False):
        of_runs = [compared[run_id] for run_id in finding.run_ids if run_id in compared]
        if not of_runs or finding.suspicion:
            continue
        said = (finding.state, finding.cause or None)
        label = of_runs[0].run.draw.same.get(said, said)
        words = found[key_of(of_runs[0].run.cell)].findings
        words[finding.confidence] += 1
        right = sum(one.matched[label] for one in of_runs)
        right_state = sum(_state(one.crossed, finding.state, label) for one in of_runs)
        words[f"{finding.confidence} right"] += 2 * right >= finding.milliseconds
        words[f"{finding.confidence} right state"] += 2 * right_state >= finding.milliseconds
    return dict(found)


def compare(session: Session, runs: Iterable[SimulatedRun]) -> dict[str, Compared]:
    """Return each run's labels and bookings, by run id."""
    booked: dict[str, dict[tuple[str, int], Counter[Label]]] = defaultdict(lambda: defaultdict(Counter))
    money: Counter[str] = Counter()
    rows = session.rows(
        """
        SELECT run_id, gpu_uuid, hour, state, cause, sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT
        FROM ledger WHERE run_id IS NOT NULL GROUP BY ALL
        """
    )
    for run_id, gpu, hour, state, cause, ms, micros in rows:
        booked[run_id][gpu, hour][state, cause] += ms
        if booking(state, cause).klass == "avoidable":
            money[run_id] += micros or 0
    return {run.run_id: compare_run(run, booked[run.run_id], money[run.run_id]) for run in runs}


def compare_run(run: SimulatedRun, booked: Mapping[tuple[str, int], Counter[Label]], micros: int) -> Compared:
    """Return one run's labels beside what is booked of each of its GPUs and hours."""
    made = Compared(run, run.truth(), ledger_micros=micros)
    for rank in range(run.cell.ranks):
        for hour, labels in run.by_hour(rank).items():
            here = _as_labelled(run, booked.get((run.gpu_uuid(rank), hour), Counter()))
            made.booked.update(here)
            _cross(made, labels, here)
    return made


def _as_labelled(run: SimulatedRun, booked: Counter[Label]) -> Counter[Label]:
    """Return the bookings, with each cause that is as right as the label's own counted as that one."""
    found: Counter[Label] = Counter()
    for label, ms in booked.items():
        found[run.draw.same.get(label, label)] += ms
    return found


def _cross(made: Compared, labels: Truth, booked: Counter[Label]) -> None:
    left, over = dict(labels), dict(booked)
    for label in sorted(labels.keys() & booked.keys(), key=str):
        both = min(labels[label], booked[label])
        made.matched[label] += both
        made.crossed[label, label] += both
        left[label] -= both
        over[label] -= both
    total = sum(over.values())
    for label, ms in left.items():
        for other, surplus in over.items():
            if ms and surplus:
                made.crossed[label, other] += round(ms * surplus / total)


def _state(crossed: Counter[tuple[Label, Label]], state: str, booked: Label) -> int:
    """Return the milliseconds that are booked so and truly of this state, whatever their cause."""
    return sum(ms for (true, other), ms in crossed.items() if true[0] == state and other == booked)


def tally(one: Compared, price: float) -> Tally:
    """Return what one run adds to its cell."""
    made, limit = Tally(runs=1), POSITIVE * one.held_ms
    _starved(made, one, limit)
    _others(made, one, limit)
    made.held_ms, made.right_ms = one.held_ms, sum(one.matched.values())
    true_micros = round(_avoidable(one.truth) * price * 1e6 / MS_PER_HOUR)
    made.truth_micros, made.ledger_micros = true_micros, one.ledger_micros
    if made.avoidable:
        made.dollar_errors_permille.append(round(1000 * (one.ledger_micros - true_micros) / true_micros))
    for (true, booked), ms in one.crossed.items():
        made.confusion[f"{true[0]}>{booked[0]}"] += ms
    return made


def _starved(made: Tally, one: Compared, limit: float) -> None:
    true, booked = _of(one.truth, "starved"), _of(one.booked, "starved")
    made.starved = sum(true.values()) >= limit
    made.booked_starved = sum(booked.values()) >= limit
    made.both_starved = made.starved and made.booked_starved
    if made.both_starved:
        causes = [max(labels, key=labels.__getitem__)[1] for labels in (true, booked)]
        made.right_cause = causes[0] == causes[1]
        made.causes[f"{causes[0]}>{causes[1]}"] += 1
    made.communicating = not made.starved and sum(_of(one.truth, "communicating").values()) >= limit
    made.taken_for_input = made.communicating and made.booked_starved


def _others(made: Tally, one: Compared, limit: float) -> None:
    lost = _avoidable(one.truth)
    made.avoidable = lost >= limit
    unexplained = sum(
        ms for (true, booked), ms in one.crossed.items() if booked[0] == "unexplained" and _is_avoidable(true)
    )
    made.abstained = made.avoidable and 2 * unexplained >= lost
    idle = sum(_of(one.booked, "held_idle").values())
    made.booked_idle = idle >= limit
    made.rightly_idle = made.booked_idle and sum(_of(one.truth, "held_idle").values()) >= limit
    made.booked_idle_ms = idle
    made.rightly_idle_ms = sum(ms for (true, booked), ms in one.crossed.items() if true[0] == booked[0] == "held_idle")


def _of(labels: dict[Label, int] | Counter[Label], state: str) -> dict[Label, int]:
    return {label: ms for label, ms in labels.items() if label[0] == state}


def _avoidable(truth: Truth) -> int:
    return sum(ms for label, ms in truth.items() if _is_avoidable(label))


def _is_avoidable(label: Label) -> bool:
    return booking(*label).klass == "avoidable"
