"""The page of a serving engine: the few lines of it that are wanted, what they say, and what moved since the last one.

Counters are kept for each series and differenced before they are added up: a part of a page (an engine, a model) that
is missing for once, begins anew or comes back is then no jump of all that it ever served.
"""

import math
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from agent.errors import UnreadError
from agent.wire.bounded import EXPOSED, exposed_labels
from agent.wire.serving import ENGINES, RANKS, REQUESTS, WITHIN_A_PART, Engine, Series

# Samples out of Prometheus's text format: those of a few names, from a page that may have a hundred thousand others.
# Source: Prometheus's exposition format 0.0.4, and OpenMetrics where it reads the same.
SAMPLES_MAX = 20_000
LINE_BYTES_MAX = 65_536
_KEPT_BYTES_MAX = 8 * 2**20

_START = "process_start_time_seconds"  # source: prometheus_client and its kin, "process_*"
_CREATED = "_created"
_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")

FOREIGN = "is not a metrics page of a serving engine that is known (docs/services.md)"
Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series."""

    labels: Mapping[str, str]
    value: float


def _created_name(name: str) -> str:
    """Return the name of the series that says since when a counter or histogram counts."""
    return re.sub(r"_(total|bucket|sum|count)$", "", name) + _CREATED


_READ = frozenset[str]().union(*(engine.names() for engine in ENGINES))
_NAMES = _READ | {_created_name(name) for name in _READ} | {_START}
_WANTED = frozenset(name.encode() for name in _NAMES)


def wanted_lines(pieces: Iterable[bytes]) -> str:
    """Return the lines of a page whose names are known, as they come; the rest is dropped at once.

    Raises:
        UnreadError: it has no such line, or more of them than a serving engine has.
    """
    kept: list[bytes] = []
    size, has_samples, rest, is_cut = 0, False, b"", False
    for piece in (*pieces, b"\n"):
        *lines, rest = (rest + piece).split(b"\n")
        if is_cut and lines:
            lines, is_cut = lines[1:], False  # the end of a line that was too long
        for line in (*lines, rest) if len(rest) > LINE_BYTES_MAX else lines:
            has_samples = has_samples or not (line.startswith(b"#") or line.isspace() or not line)
            if (name := _NAME.match(line)) is not None and name[0] in _WANTED:
                kept.append(line)
                size += len(line)
                if len(line) > LINE_BYTES_MAX or len(kept) > SAMPLES_MAX or size > _KEPT_BYTES_MAX:
                    raise UnreadError("too_large", "has more in the lines of its engine than can be read")
        if is_cut or len(rest) > LINE_BYTES_MAX:
            rest, is_cut = b"", True
    if not kept and has_samples:
        raise UnreadError("foreign", FOREIGN)
    if not kept:
        raise UnreadError("empty", "is empty: nobody may have asked it for anything yet")
    return b"\n".join(kept).decode("utf-8", "replace")


def samples(text: str, wanted: Collection[str]) -> dict[str, list[Sample]]:
    """Return the samples of these names, each name's in order; what cannot be read, and NaN, is left out.

    Pure, and safe on any text: what it keeps and what a line may cost are bounded.
    """
    found: dict[str, list[Sample]] = {}
    kept = 0
    for line in text.split("\n"):
        match = EXPOSED.match(line) if len(line) <= LINE_BYTES_MAX else None
        if match is None or match[1] not in wanted or (value := _number(match[3])) is None:
            continue
        found.setdefault(match[1], []).append(Sample(exposed_labels(match[2]), value))
        kept += 1
        if kept >= SAMPLES_MAX:
            break
    return found


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


# What one page says.
# Buckets of the two histograms, in place of a column: of the first token, and from one to the next.
FIRST_RESPONSE, BETWEEN_TOKENS = "first_response", "between_tokens"
ALL_MODELS = "*"  # as the model that counts
_MODEL_CHARACTERS_MAX = 200
_Samples = Mapping[str, list[Sample]]


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """One series of a column: its name and its labels."""

    column: str
    name: str
    labels: Labels

    @property
    def part(self) -> Labels:
        """Return what tells its engine or model from others on the page."""
        return part_of(self.labels)


def part_of(labels: Labels) -> Labels:
    """Return the labels without those that tell events of one server apart."""
    return frozenset((name, value) for name, value in labels if name not in WITHIN_A_PART)


@dataclass(frozen=True, slots=True)
class Page:
    """What one page says: ever-growing series, what holds now, which parts it has, and of which process it is.

    `needs` is what the settings must say before its requests can be counted: which `model` or which `role` it is.
    """

    engine: str
    series: Mapping[SeriesKey, float]
    now: Mapping[str, int | float] = field(default_factory=dict)
    parts: frozenset[Labels] = frozenset()
    created: Mapping[tuple[str, Labels], float] = field(default_factory=dict)  # since when a series counts
    processes: frozenset[tuple[Labels, float]] = frozenset()  # when each process behind it began
    model: str | None = None  # None where it serves several, or does not say
    role: str | None = None  # as the engine says it
    needs: str | None = None

    @property
    def identities(self) -> Mapping[object, object]:
        """Return what tells the process that answered, and the beginning of each series, from another one."""
        found: dict[object, object] = {_START: self.processes}
        found.update(self.created)
        return found


def totals(series: Mapping[SeriesKey, float]) -> dict[str, float]:
    """Return the sum of each column, but for the histograms."""
    found: dict[str, float] = {}
    for key, value in series.items():
        if key.column not in (FIRST_RESPONSE, BETWEEN_TOKENS):
            found[key.column] = found.get(key.column, 0) + value
    return found


def read_page(text: str, model: str | None = None) -> Page | None:
    """Return what a page of /metrics says, or None where it is of no engine that is known. Pure.

    Of several models behind one address only `model` counts where it is named.
    """
    found = samples(text, _NAMES)
    for engine in ENGINES:
        if any(mark in found for mark in engine.marks):
            return _page(engine, found, model)
    return None


def _page(engine: Engine, found: _Samples, model: str | None) -> Page:
    own = {name: list(said) for name, said in found.items() if name in engine.names()}
    queues = {column: round(value) for column, value in _gauges(engine.gauges, engine, own, model, sum).items()}
    ratios = _gauges(engine.ratios, engine, own, model, lambda values: sum(values) / len(values))
    labels = [frozenset(sample.labels.items()) for said in own.values() for sample in said]
    roles = {sample.labels.get(engine.role_label or "") for said in own.values() for sample in said}
    role = next(iter(roles & {"prefill", "decode"}), None) if len(roles - {None}) == 1 else None
    series = dict(_series(engine, own, model))
    needs = _needs(engine, own, series, model)
    return Page(
        engine=engine.name,
        series=series,
        now={**queues, **ratios},
        parts=frozenset(part_of(each) for each in labels),
        created={
            (name, frozenset(sample.labels.items())): sample.value
            for name, said in found.items()
            if name.endswith(_CREATED)
            for sample in said
        },
        processes=frozenset((frozenset(sample.labels.items()), sample.value) for sample in found.get(_START, ())),
        model=_model(engine, own) if model in (None, ALL_MODELS) or needs == "model" else model,
        role=role,
        needs=needs,
    )


def _series(engine: Engine, own: _Samples, model: str | None) -> Iterable[tuple[SeriesKey, float]]:
    histograms = {FIRST_RESPONSE: engine.first_response, BETWEEN_TOKENS: engine.between_tokens}
    named = {column: tuple(Series(f"{name}_bucket") for name in names) for column, names in histograms.items()}
    columns = {**engine.counters, **named}
    for column, names in columns.items():
        name, said = _chosen(column, names, engine, own, model)
        for sample in said:
            yield SeriesKey(column, name, frozenset(sample.labels.items())), sample.value


def _gauges(
    columns: Mapping[str, tuple[Series, ...]],
    engine: Engine,
    own: _Samples,
    model: str | None,
    combined: Callable[[list[float]], float],
) -> dict[str, float]:
    found = {column: _chosen(column, names, engine, own, model)[1] for column, names in columns.items()}
    return {column: combined([sample.value for sample in said]) for column, said in found.items() if said}


def _chosen(
    column: str, names: Iterable[Series], engine: Engine, own: _Samples, model: str | None
) -> tuple[str, list[Sample]]:
    """Return the samples of a column by the first of its names that is there, none where one of them is absurd."""
    for series in names:
        said = [sample for sample in own.get(series.name, ()) if series.counts(sample.labels)]
        if model not in (None, ALL_MODELS) and engine.model_label:
            of_model = [sample for sample in said if sample.labels.get(engine.model_label) == model]
            # What an ensemble's members alone tell, tokens and queues, is told for the ensemble.
            said = of_model if of_model or column in REQUESTS or not engine.has_ensembles else said
        if said and all(0 <= sample.value < math.inf for sample in said):
            return series.name, _first_ranks(said)
    return "", []


def _first_ranks(said: list[Sample]) -> list[Sample]:
    """Return of the ranks that share one queue, and may each tell it, the first: those of one data-parallel rank."""
    found: dict[Labels, tuple[tuple[int, ...], Sample]] = {}
    for sample in said:
        alike = frozenset((name, value) for name, value in sample.labels.items() if name not in RANKS)
        ranks = tuple(int(rank) if (rank := sample.labels.get(name, "")).isdecimal() else 0 for name in RANKS)
        found[alike] = min(found.get(alike, (ranks, sample)), (ranks, sample), key=lambda one: one[0])
    return [sample for _, sample in found.values()]


def _model(engine: Engine, own: _Samples) -> str | None:
    """Return the one model that all series are of, or None: which of several a GPU's time went to, no page says."""
    label = engine.model_label or ""
    said = {sample.labels[label] for series in own.values() for sample in series if sample.labels.get(label)}
    return said.pop()[:_MODEL_CHARACTERS_MAX] if len(said) == 1 else None


def _needs(engine: Engine, own: _Samples, series: Mapping[SeriesKey, float], model: str | None) -> str | None:
    label = engine.model_label or ""
    if model not in (None, ALL_MODELS) and all(
        each.labels.get(label) != model for said in own.values() for each in said
    ):
        return "model"  # it is misspelled, or gone
    models = {dict(key.labels).get(label) for key in series if key.column == "requests"}
    if engine.has_ensembles and model is None and len(models) > 1:
        return "model"
    return "role" if any(mark in own for mark in engine.half_marks) else None


# What moved between two pages.
_PROCESSES_REMEMBERED = 64
_PAGES_OF_SEVERAL = 30  # of one process in a row, before an address at which several answered is one's again


class Continuity:
    """What the counters of one address moved by from page to page: None where more may be in it than was served.

    That is wherever a part fell, went, came or came back, and wherever another process answered. A value from which a
    series fell, or at which it went, is remembered: a rise past it may be no work, but the former process again.
    """

    def __init__(self) -> None:
        self._before: Page | None = None
        self._marks: OrderedDict[SeriesKey, float] = OrderedDict()
        self._former: OrderedDict[object, deque[object]] = OrderedDict()  # what told a process, before another did
        self._several = 0

    @property
    def is_of_several(self) -> bool:
        """Whether processes take turns behind the address, so that no page is what all of them did."""
        return self._several > 0

    def moved(self, now: Page, *, is_recent: bool = True) -> Mapping[SeriesKey, float] | None:
        """Return how far each series moved since the page before, which must be `is_recent` to be a beginning."""
        before, self._before = self._before, now
        is_known = self._is_same_process(before, now) and is_recent
        if before is None or before.engine != now.engine:
            return None
        for key in before.series.keys() - now.series.keys():
            is_known = False
            self._mark(key, before.series[key])
        found: dict[SeriesKey, float] = {}
        for key, value in now.series.items():
            last = before.series.get(key)
            if last is None:
                # Some clients show a counter from its first event on; a part that was not there is another thing.
                is_known = is_known and key not in self._marks and key.part in before.parts
                last = 0.0
            if value < last:
                is_known = False
                self._mark(key, last)
            elif value >= self._marks.get(key, math.inf):
                is_known = is_known and last >= self._marks[key]
                del self._marks[key]
            found[key] = value - last
        return found if is_known and not self.is_of_several else None

    def _mark(self, key: SeriesKey, value: float) -> None:
        self._marks[key] = max(value, self._marks.get(key, 0.0))
        if len(self._marks) > SAMPLES_MAX:
            self._marks.popitem(last=False)

    def _is_same_process(self, before: Page | None, now: Page) -> bool:
        self._several = max(0, self._several - 1)
        former = {} if before is None else before.identities
        changed = {key: former[key] for key, value in now.identities.items() if former.get(key, value) != value}
        for key, value in changed.items():
            known = self._former.setdefault(key, deque(maxlen=_PROCESSES_REMEMBERED))
            if now.identities[key] in known:  # it was gone, and is back: they take turns
                self._several = _PAGES_OF_SEVERAL
            if value not in known:
                known.append(value)
        while len(self._former) > SAMPLES_MAX:
            self._former.popitem(last=False)
        return not changed


# Percentiles of one interval, from what moved in a Prometheus histogram.
Buckets = Mapping[float, float]  # upper bound: observations up to it


@dataclass(frozen=True, slots=True)
class Quantile:
    """Between which bounds a quantile certainly lies, `most` None beyond the last; within them it is estimated."""

    least: float
    most: float | None
    estimate: float | None


def buckets(moved: Mapping[SeriesKey, float], column: str) -> Buckets | None:
    """Return the buckets of all series of a histogram as one, or None where nothing was observed or none fit.

    Series of different bounds (two versions behind one address) cannot be added up.
    """
    series: dict[Labels, dict[float, float]] = {}
    for key, value in moved.items():
        if key.column == column:
            bound = _bound(dict(key.labels).get("le", ""))
            if bound is None:
                return None
            series.setdefault(frozenset(each for each in key.labels if each[0] != "le"), {})[bound] = value
    bounds = {frozenset(each) for each in series.values()}
    if len(bounds) != 1 or math.inf not in (found := next(iter(bounds))):
        return None
    summed = {bound: sum(each[bound] for each in series.values()) for bound in sorted(found)}
    counts = [0.0, *summed.values()]
    return summed if counts[-1] > 0 and all(low <= high for low, high in pairwise(counts)) else None


def quantile(counted: Buckets, share: float) -> Quantile:
    """Return the value below which this share of the observations lies, estimated as spread evenly within a bucket.

    Source: as Prometheus's histogram_quantile, which tells the last bound of what lies beyond it.
    """
    rank = share * counted[math.inf]
    low, below = 0.0, 0.0
    for bound, count in counted.items():
        if count >= rank and count > below:
            if bound == math.inf:
                break
            return Quantile(low, bound, low + (bound - low) * (rank - below) / (count - below))
        low, below = bound, count
    return Quantile(low, None, None)


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) or bound < 0 else bound
