"""What a column of a log means, in which unit, and when: names of all tools in one table, cells, dates, readings.

Names that no tool owns are judged by the whole column: 0 to 100 is percent, 300,000 is milliwatts.
"""

import csv
import io
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Any

from agent.wire.tables import TABLES
from agent.wire.units import DAY_US, SECOND_US
from collector.prometheus.names import catalogue

Record = Mapping[str, Any]
OWN_TABLE = "a table of your own"
_Values = Mapping[str | None, dict[str, float]]  # by the GPU's number, by column

_UNITS: dict[str, float] = {
    "%": 0.01, "pct": 0.01, "percent": 0.01, "percentage": 0.01, "ratio": 1.0,
    "b": 1.0, "bytes": 1.0, "kib": 2.0**10, "kb": 2.0**10, "mib": 2.0**20, "mb": 2.0**20, "megabytes": 1e6,
    "gib": 2.0**30, "gb": 2.0**30, "w": 1.0, "watts": 1.0, "mw": 1e-3, "milliwatts": 1e-3, "kw": 1e3,
    "j": 1.0, "joules": 1.0, "mj": 1e-3, "kwh": 3.6e6, "wh": 3.6e3, "c": 1.0, "celsius": 1.0,
    "mhz": 1e6, "hz": 1.0, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6,
}  # fmt: skip

# What a name means, once its GPU's number, its unit and the tool's own words are off; the unit where none is said.
_NAMES: tuple[tuple[str, str, str], ...] = (
    (r"(_?timestamp|time|datetime|date_time|query_time|ts|unix_time)", "time", ""),
    (r"date", "date", ""),
    (r"(elapsed(_time)?|_?runtime|relative_time|uptime|seconds|secs?|t)", "elapsed", "s"),
    (r"duration", "duration", "s"),
    (r"start_time", "start", ""),
    (r"(index|idx|id|gpu|gpu_(id|index|idx|num)|device(_id|_index)?|entity|minor_number)", "index", ""),
    (r"(uuid|gpu_uuid)", "uuid", ""),
    (r"(pci_bus_id|bus_id)", "bus", ""),
    (r"(name|product_name|model|gpu_model|gpu_name|modelname)", "name", ""),
    (r"(host(name)?|node|nodename|instance)", "host", ""),
    (r"(util(ization)?(_gpu)?|gpu_util(ization)?|(gpu_)?(usage|load)|of_gpu|sm|gputl|acc_utilization)",
     "utilization_ratio", "%"),
    (r"(util(ization)?_mem(ory)?|mem(ory)?_util(ization)?|mem(ory)?|mcutl|acc_mem_util)",
     "memory_utilization_ratio", "%"),
    (r"(utilization_)?enc(oder)?(_util(ization)?)?", "encoder_utilization_ratio", "%"),
    (r"(utilization_)?dec(oder)?(_util(ization)?)?", "decoder_utilization_ratio", "%"),
    (r"(mem(ory)?_(used|usage|allocated|alloc)|vram(_used)?|used(_gpu)?_memory|fb(_used)?|fbusd|acc_mem_used)",
     "memory_used_bytes", "mib"),
    (r"(mem(ory)?_total|total_memory|vram_total|fbttl)", "memory_total", "mib"),
    (r"mem(ory)?_reserved", "memory_reserved_bytes", "mib"),
    (r"(mem(ory)?_free|free_memory|fbfre)", "memory_free", "mib"),
    (r"(power(_(draw|usage|draw_average|draw_instant|consumption|average|instant))?|pwr|gpu_power|acc_power)",
     "power_watts", "w"),
    (r"totec", "energy_joules_total", "mj"),
    (r"total_energy(_consumption)?", "energy_joules_total", "mj"),
    (r"(gpu_)?energy(_consumed)?", "energy_joules", "j"),
    (r"(temp(erature)?(_gpu)?|gtemp|gpu_temp(erature)?|tmptr|acc_temp)", "temperature_celsius", "c"),
    (r"(temperature_memory|mem(ory)?_temp(erature)?|mtemp|mmtmp)", "memory_temperature_celsius", "c"),
    (r"(clocks?(_current)?_sm|sm_clock|pclk|smclk|(clocks?(_current)?_)?gr(aphics)?(_clock)?|acc_clock)",
     "sm_clock_hertz", "mhz"),
    (r"(clocks?(_current)?_mem(ory)?|mem(ory)?_clock|mclk|mmclk|acc_mem_clock)", "memory_clock_hertz", "mhz"),
    (r"(sm_active)", "sm_active_ratio", "%"), (r"smact", "sm_active_ratio", "ratio"),
    (r"(sm_occupancy)", "sm_occupancy_ratio", "%"), (r"smocc", "sm_occupancy_ratio", "ratio"),
    (r"(pipe_tensor_active|tensor_active)", "tensor_active_ratio", "%"), (r"tenso", "tensor_active_ratio", "ratio"),
    (r"dram_active", "dram_active_ratio", "%"), (r"drama", "dram_active_ratio", "ratio"),
    (r"gract", "graphics_active_ratio", "ratio"),
)  # fmt: skip
_RULES = tuple((re.compile(pattern), meaning, unit) for pattern, meaning, unit in _NAMES)
FACTS = frozenset({"time", "date", "elapsed", "duration", "start", "index", "uuid", "bus", "name", "host"})
_NUMBERED = re.compile(r"\(gpu:(\d+)\)"), re.compile(r"gpu[ ._:-]?(\d+)|(?<![a-z])cuda:(\d+)|power_?(\d+)$")
# Limits, shares of the memory or of the power limit, what processes did, and the extremes beside a mean.
_UNMEANT = re.compile(
    r"\.process\.|processes|/(min|max|last)$|limit|power_?percent|memory_(allocated|usage_percentage|percent.*)$"
)
_UNMEANT_NAMED = 8
_BRACKET = re.compile(r"[\[(]\s*([^\])]*?)\s*[\])]")
_FILLER = re.compile(
    r"^(benchmark|resources|metrics_daemon|collect|system|nvidia_smi|nvidia|node_[a-z0-9]+|cuda_\d+|gpu_\d+|_)_+"
)
_UNIT_WORD = re.compile(r"_(pct|percent|percentage|ratio|bytes|megabytes|kib|mib|gib|kb|mb|gb|w|watts|mw|milliwatts|kw"
                        r"|c|celsius|mhz|hz|j|joules|mj|kwh|wh|s|sec|secs|seconds|ms)$")  # fmt: skip
_NUMBER = re.compile(r"^\s*([+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([A-Za-z%]*)")
_LOST = re.compile(r"GPU is lost|ERR!|GPU requires reset", re.IGNORECASE)
_GPU_NAME = re.compile(r"nvidia|tesla|geforce|quadro|rtx|[ahbvl]\d{2,3}\b|gh200", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a column of a log means: a column of gpu_samples or a fact, of which GPU, and how a value becomes our unit.

    `is_sure` is False where the unit is only usual: the column as a whole then tells (`judge_units`).
    """

    column: str
    gpu: str | None
    factor: float
    is_sure: bool


@cache
def meaning_of(name: str) -> Meaning | None:
    """Return what a name of a column means, or None where that is not known."""
    if (metric := catalogue().get(name.partition("{")[0])) is not None:
        slot = next((one for one in metric.slots if one.table == "gpu_samples" and one.reading == "value"), None)
        column = None if slot is None else _column_of(slot.column)
        return None if slot is None or column is None else Meaning(column, None, slot.by / slot.times, is_sure=True)
    lowered = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip()).lower()
    if _UNMEANT.search(lowered):
        return None
    number = _NUMBERED[0].search(lowered) or _NUMBERED[1].search(lowered)
    gpu = next((group for group in number.groups() if group), None) if number else None
    brackets = [text for text in _BRACKET.findall(lowered) if text in _UNITS]
    bare = re.sub(r"/mean$", "", _BRACKET.sub("", lowered))
    if number and (cut := re.sub(r".*(gpu[ ._:-]?\d+|cuda:\d+)\s*", "", bare)) != bare:
        bare = cut
    bare = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=power)_?\d+$", "", bare)).strip("_")
    bare = "of_gpu" if gpu is not None and bare in ("", "gpu") else bare  # of wandb's system.gpu.0.gpu
    while (shorter := _FILLER.sub("", bare)) != bare:
        bare = shorter
    for stem in (bare, _UNIT_WORD.sub("", bare), _UNIT_WORD.sub("", bare).removeprefix("gpu_")):
        for pattern, column, usual in _RULES:
            if pattern.fullmatch(stem):
                word = _UNIT_WORD.search(bare) if stem != bare else None
                said = brackets[0] if brackets else word[1] if word else ""
                is_size = _UNITS.get(said, 0.0) >= _UNITS["kib"]
                meant = "memory_used_bytes" if is_size and column == "memory_utilization_ratio" else column
                return Meaning(meant, gpu, _UNITS.get(said or usual, 1.0), is_sure=bool(said) or usual == "ratio")
    return None


def _column_of(step: str) -> str | None:
    """Return what a slot of the catalogue is here; None for a step to a column that no log is asked for."""
    name = {"memory_bytes": "memory_total", "memory_free_bytes": "memory_free"}.get(step, step)
    return (
        name if name in (*TABLES["gpu_samples"].names, "memory_total", "memory_free", "energy_joules_total") else None
    )


@dataclass(slots=True)
class Gpu:
    """What a log says of one GPU: readings by time (microseconds), and facts. `uuid` is None where only a number is."""

    uuid: str | None = None
    index: int | None = None
    name: str | None = None
    memory_bytes: int | None = None
    readings: dict[int, dict[str, float]] = field(default_factory=dict)
    windows: list[tuple[int, int, float, str]] = field(default_factory=list)  # start, end, joules, run
    lost: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Log:
    """A log that was read: its kind, GPUs by host and key, what was taken for granted, and how many lines say nothing.

    Times count from the log's beginning where `is_dated` is False. `run` is the job that the log names itself.
    """

    kind: str
    gpus: dict[tuple[str, str], Gpu] = field(default_factory=lambda: defaultdict(Gpu))
    assumed: list[str] = field(default_factory=list)
    is_dated: bool = True
    rows: int = 0
    skipped: int = 0
    run: dict[str, str] = field(default_factory=dict)

    def assume(self, sentence: str) -> None:
        """Note what was taken for granted, once."""
        if sentence not in self.assumed:
            self.assumed.append(sentence)


@dataclass(frozen=True, slots=True)
class LogHints:
    """What a person says beside a log: names of its columns, the time zone of its times, seconds between its rows."""

    columns: tuple[str, ...] = ()
    timezone: tzinfo = UTC
    every: float | None = None


def cell_of(raw: object) -> tuple[float | None, str]:
    """Return the number of a cell and the unit beside it; None where there is no number, which is never 0."""
    if isinstance(raw, bool) or raw is None:
        return None, ""
    if isinstance(raw, int | float):
        return (float(raw), "") if math.isfinite(raw) else (None, "")
    found = _NUMBER.match(str(raw))
    if found is None or (found[2] and found[2].lower() not in _UNITS):
        return None, ""
    value = float(found[1].replace(",", ""))
    return (value if math.isfinite(value) else None), found[2].lower()


_DATED = re.compile(
    r"^\s*(\d{4})[-/.]?(\d\d?)[-/.]?(\d\d?)[T _]+(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"\s*(Z|UTC|[+-]\d\d:?\d\d)?\s*$"
)
_WRITTEN = ("%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%a %b %d %H:%M:%S %Y",
            "%a %d %b %Y %H:%M:%S")  # fmt: skip
_CLOCK = re.compile(r"^\s*(\d\d?):(\d\d):(\d\d(?:\.\d+)?)\s*$")


def moment(raw: object, zone: tzinfo = UTC) -> int | None:
    """Return a time in microseconds: a date in one of the spellings of loggers, or an epoch in s, ms, us or ns."""
    value, _ = cell_of(raw) if not isinstance(raw, str) or re.fullmatch(r"\s*[\d.eE+]+\s*", raw) else (None, "")
    if value is not None:
        scale = next((by for least, by in ((1e17, 1e-3), (1e14, 1.0), (1e11, 1e3), (1e8, 1e6)) if value >= least), None)
        return None if scale is None else round(value * scale)
    text = str(raw)
    if (found := _DATED.match(text)) is not None:
        year, month, day, hour, minute, second, part, offset = found.groups()
        plain = f"{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute}:{second or '00'}.{(part or '0')[:6]:0<6}"
        try:
            when = datetime.fromisoformat(plain + ("Z" if offset in ("Z", "UTC") else offset or ""))
        except ValueError:
            return None
        return _micros(when, zone)
    for form in _WRITTEN:
        try:
            return _micros(datetime.strptime(text.strip(), form), zone)
        except ValueError:
            continue
    return None


def _micros(when: datetime, zone: tzinfo) -> int:
    whole = when if when.tzinfo else when.replace(tzinfo=zone)
    return int(whole.replace(microsecond=0).timestamp()) * SECOND_US + whole.microsecond


def _elapsed(raw: object) -> int | None:
    if (clock := _CLOCK.match(str(raw))) is not None:
        return round((int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3])) * SECOND_US)
    value, unit = cell_of(raw)
    return None if value is None else round(value * _UNITS.get(unit, 1.0) * SECOND_US)


@dataclass(slots=True)
class _Clock:
    """Turns what records say of time into microseconds; where they say nothing rows count, so many seconds apart."""

    log: Log
    hints: LogHints
    counts: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    days: int = 0  # that a clock without dates has gone past, and what it said last
    last: int = 0

    def at(self, facts: Mapping[str, Any], key: tuple[str, str]) -> int | None:
        """Return when a record was made; None where its time cannot be read."""
        told = [facts[name] for name in ("date", "time") if facts.get(name) not in (None, "")]
        if told:
            text = " ".join(map(str, told)) if len(told) > 1 else told[0]
            if (found := moment(text, self.hints.timezone)) is not None:
                if isinstance(text, str) and not re.search(r"Z|UTC|[+-]\d\d:?\d\d$|^\s*[\d.eE+]+\s*$", text):
                    self.log.assume(
                        f"its times are {self.hints.timezone}, since it names no zone; --timezone says another"
                    )
                return found
        for raw in (facts.get("elapsed"), *told):
            if raw not in (None, "") and (found := _elapsed(raw)) is not None:
                self.log.is_dated = False
                if _CLOCK.match(str(raw)):
                    self.days += found + self.days * DAY_US < self.last - DAY_US // 2  # past midnight
                    self.last = found + self.days * DAY_US
                    return self.last
                return found
        if told or facts.get("elapsed") not in (None, ""):
            return None
        self.log.is_dated = False
        every = self.hints.every or 1.0
        if self.hints.every is None:
            self.log.assume("its rows are a second apart, since it names no time; --every says otherwise")
        self.counts[key] += 1
        return round((self.counts[key] - 1) * every * SECOND_US)


def fill(log: Log, records: Iterable[Record], hints: LogHints) -> None:
    """Put records into a log: each of one GPU, or with the GPU in the names of its columns."""
    clock = _Clock(log, hints)
    unmeant: dict[str, None] = {}
    for record in records:
        log.rows += 1
        facts: dict[str, Any] = {}
        values: dict[str | None, dict[str, float]] = defaultdict(dict)
        for name, raw in record.items():
            meaning = meaning_of(name)
            if meaning is None:
                unmeant[name] = None
                continue
            if meaning.column in FACTS and (meaning.gpu is None or meaning.column == "name"):
                number = cell_of(raw)[0] if meaning.is_sure else None  # of elapsed_ms
                facts.setdefault(meaning.column, raw if number is None else number * meaning.factor)
                continue
            if isinstance(raw, str) and _LOST.search(raw):
                facts["lost"] = True
            value, unit = cell_of(raw)
            own = values[meaning.gpu]  # that it was asked is known, whatever the cell says
            if value is not None:
                factor = _UNITS[unit] if unit else meaning.factor
                sure = "" if meaning.is_sure or unit else "?"
                own[meaning.column + sure] = value * (factor if not sure else 1.0)
        _place(log, clock, record, facts, values)
    if log.kind == OWN_TABLE and unmeant:
        log.assume(f"{', '.join([*unmeant][:_UNMEANT_NAMED])} of it is not read: what that means is not known")


def _place(log: Log, clock: _Clock, record: Record, facts: Record, values: _Values) -> None:
    host = str(facts.get("host") or record.get("Hostname") or "").split(":")[0]
    named = str(facts.get("uuid") or facts.get("bus") or "").strip()
    index, _ = cell_of(str(facts.get("index", "")).lower().removeprefix("gpu").strip())
    shared = values.get(None, {})
    numbered: list[str | None] = [gpu for gpu in values if gpu is not None] or [None]
    when = clock.at(facts, (host, str(numbered[0] or named or index)))
    if when is None:
        log.skipped += 1
        return
    if not values and not named and index is None and not facts.get("lost"):
        return  # of a page of an exporter many lines are of no GPU
    for number in numbered:
        own = {**values.get(number, {}), **(shared if number is None else {})}
        gpu_index = int(number) if number is not None else int(index) if index is not None else None
        key = named or (f"gpu{gpu_index}" if gpu_index is not None else "gpu0")
        gpu = log.gpus[host, key]
        gpu.uuid, gpu.index = named or gpu.uuid, gpu_index if gpu_index is not None else gpu.index
        gpu.name = str(facts["name"]).strip() if facts.get("name") and not log.kind.startswith("code") else gpu.name
        if "window" in record:
            start, end, run = record["window"]
            gpu.windows.append((start, end, own.get("energy_joules", own.get("energy_joules?", 0.0)), run))
            continue
        gpu.readings.setdefault(when, {}).update(own)
        if facts.get("lost") and not own:
            gpu.lost.add(when)


def judge_units(log: Log) -> None:
    """Give columns of no said unit the one that the whole column looks like, and facts of memory to their GPU."""
    values: dict[str, list[float]] = defaultdict(list)
    readings = [(gpu, reading) for gpu in log.gpus.values() for reading in gpu.readings.values()]
    for _, reading in readings:
        for name in reading:
            if name.endswith("?"):
                values[name].append(reading[name])
    _own_memory(values, readings)
    factors = {name: _factor(name[:-1], max(each), any(one % 1 for one in each), log) for name, each in values.items()}
    for gpu, reading in readings:
        for name in [one for one in reading if one.endswith("?")]:
            reading.setdefault(name[:-1], reading.pop(name) * factors[name])
        total, free = reading.pop("memory_total", None), reading.pop("memory_free", None)
        if total is not None:
            gpu.memory_bytes = int(total)
            if free is not None:
                reading.setdefault("memory_used_bytes", total - free)


def _own_memory(values: dict[str, list[float]], readings: Sequence[tuple[Gpu, dict[str, float]]]) -> None:
    """Read "memory" as bytes in use where it goes beyond 100: a table of one's own calls it so."""
    if max(values.get("memory_utilization_ratio?", [0])) > 100:
        del values["memory_utilization_ratio?"]
        for _, reading in readings:
            if "memory_utilization_ratio?" in reading:
                reading["memory_used_bytes"] = reading.pop("memory_utilization_ratio?") * _UNITS["mib"]


def _factor(column: str, most: float, is_broken: bool, log: Log) -> float:
    unit = next(usual for _, name, usual in _RULES if name == column)
    is_own = log.kind == OWN_TABLE
    if column.endswith("_ratio") and unit == "%" and most <= 1 and is_broken and is_own:
        unit = "ratio"
    elif column.startswith("memory_") and unit == "mib":
        unit = "b" if most > 2**24 else "gib" if most <= 512 and is_broken else unit
    elif column == "power_watts" and most > 5_000:
        unit = "mw"
    if is_own:
        log.assume(f"{column} is in {unit}, by its largest value, {most:g}")
    return _UNITS[unit]


def cells_of(text: str) -> Iterator[list[str]]:
    """Yield the rows of a table that have any cell, apart by the mark that its first lines share."""
    lines = [line for line in text[:65_536].splitlines()[:20] if line.strip()]
    often = {mark: statistics.multimode(line.count(mark) for line in lines)[0] for mark in ";\t" if lines}
    mark = max(often, key=lambda one: often[one], default=",")
    mark = mark if often.get(mark) else ","
    for row in csv.reader(io.StringIO(text.replace("\0", "")), delimiter=mark, skipinitialspace=True):
        if any(cell.strip() for cell in row):
            yield [cell.strip().replace(",", ".") if mark == ";" else cell.strip() for cell in row]


def is_header(cells: Sequence[str]) -> bool:
    """Say whether a line names columns: at least one means something, and none of its cells is a number or a date."""
    return any(map(meaning_of, cells)) and not any(cell_of(one)[0] is not None or moment(one) for one in cells if one)


def is_cut(cells: Sequence[str], before: Sequence[str]) -> bool:
    """Say whether a last line breaks off: its last cell lacks the unit, or the decimals, that the one before has."""
    last, other = cells[-1], before[-1]
    (value, unit), (reference, other_unit) = cell_of(last), cell_of(other)
    if value is None or reference is None:
        return False
    return unit != other_unit or ("." in other and "." not in last and len(last) < len(other))


def guessed_names(columns: Sequence[Sequence[str]]) -> tuple[list[str], bool]:
    """Return names for columns that have none, by their units and values, and whether any of them bears a unit."""
    pools = {
        "%": ["utilization.gpu", "utilization.memory"],
        "w": ["power.draw", "power.limit"],
        "mhz": ["clocks.sm", "clocks.mem"],
        "c": ["temperature.gpu"],
    }
    memory = [at for at, column in enumerate(columns) if _unit_of(column) == "mib" or _is_memory(column)]
    roles = dict(zip(memory, _memory_roles([columns[at] for at in memory]), strict=True))
    names: list[str] = []
    for at, column in enumerate(columns):
        unit = _unit_of(column) or _usual_unit(column, names)
        pool = pools.get(unit, [])
        if at in roles:
            names.append(roles[at])
        elif moment(column[0]) is not None:
            names.append("timestamp")
        elif column[0].startswith("GPU-"):
            names.append("uuid")
        elif _GPU_NAME.search(column[0]):
            names.append("name")
        else:
            names.append("index" if unit == "index" else pool.pop(0) if pool else "-")
    return names, any(_unit_of(column) for column in columns)


def _unit_of(column: Sequence[str]) -> str:
    return next((unit for one in column if (unit := cell_of(one)[1])), "")


def _numbers(column: Sequence[str]) -> list[float]:
    return [value for one in column if (value := cell_of(one)[0]) is not None]


def _is_memory(column: Sequence[str]) -> bool:
    values = _numbers(column)
    return bool(values) and not _unit_of(column) and moment(column[0]) is None and max(values) > 4_000


def _usual_unit(column: Sequence[str], names: Sequence[str]) -> str:
    """Return the unit that bare numbers look like: 0 and 1 at the front are GPUs, decimals watts, the rest percent."""
    values = _numbers(column)
    if not values or moment(column[0]) is not None:
        return ""
    if any("." in one for one in column):
        return "w"
    if max(values) < 16 and set(names) <= {"timestamp", "uuid", "name"} and len(set(values)) > 1:
        return "index"
    return "c" if min(values) >= 15 and "utilization.gpu" in names else "%"


def _memory_roles(columns: Sequence[Sequence[str]]) -> list[str]:
    """Tell used, free and total apart: the largest that never changes is the total, the smaller at first is used."""
    firsts = [values[0] if (values := _numbers(column)) else 0.0 for column in columns]
    fixed = [at for at, column in enumerate(columns) if len(set(_numbers(column))) == 1]
    roles = ["memory.total" if at in fixed and len(columns) > 1 and firsts[at] == max(firsts) else "" for at in
             range(len(columns))]  # fmt: skip
    rest = sorted((at for at, role in enumerate(roles) if not role), key=lambda at: firsts[at])
    for at, role in zip(rest, ("memory.used", "memory.free", "-"), strict=False):
        roles[at] = role
    return [role or "-" for role in roles]
