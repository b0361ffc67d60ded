"""What a column of a log means, in which unit, and when: names of all tools in one table, cells, dates, readings.

Names that no tool owns are judged by the whole column: 0 to 100 is percent, 300,000 is milliwatts.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cache, lru_cache
from typing import Any, NamedTuple

from agent.wire.tables import TABLES
from agent.wire.units import DAY_US, SECOND_US
from collector.importing.log_cells import BLANK, CLOCK, UNITS, cell_of, elapsed, measure_of, moment, unit_said
from collector.prometheus.names import catalogue

Record = Mapping[str, Any]
OWN_TABLE = "a table of your own"
_Values = Mapping[str | None, dict[str, float]]  # by the GPU's number, by column

# What a name means, once its GPU's number, its unit and the tool's own words are off; the unit where none is said.
_NAMES: tuple[tuple[str, str, str], ...] = (
    (r"(_?timestamp|time|datetime|date_time|query_time|ts|unix_time)", "time", ""),
    (r"date", "date", ""),
    (r"(elapsed(_time)?|_?runtime|relative_time|time_relative|uptime|seconds|secs?|t)", "elapsed", "s"),
    (r"duration", "duration", "s"),
    (r"start_time", "start", ""),
    (r"(index|idx|id|gpu|gpu_(id|index|idx|num)|device(_id|_index)?|entity|minor_number)", "index", ""),
    (r"(uuid|gpu_uuid)", "uuid", ""),
    (r"(pci_bus_id|bus_id)", "bus", ""),
    (r"(name|product_name|model|gpu_model|gpu_name|modelname)", "name", ""),
    (r"(host(name)?|node|nodename|instance)", "host", ""),
    (r"(pid|process_id)", "process", ""),
    (r"(run|run_(id|name|uuid))", "run", ""),
    (r"(util(ization)?(_gpu)?|gpu_util(ization)?|(gpu_)?(core_)?(usage|use|load)|of_gpu|sm|gputl|acc_utilization)",
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
    (r"((board_)?power1?(_(draw|usage|draw_average|draw_instant|consumption|average|instant))?|pwr|gpu_power|acc_power)",
     "power_watts", "w"),
    (r"totec", "energy_joules_total", "mj"),
    (r"(total_energy(_consumption)?|energy_total)", "energy_joules_total", "mj"),
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
FACTS = frozenset(
    {"time", "date", "elapsed", "duration", "start", "index", "uuid", "bus", "name", "host", "process", "run"}
)
_NUMBERED = re.compile(r"\(gpu:(\d+)\)"), re.compile(r"gpu[ ._:-]?(\d+)|(?<![a-z])cuda:(\d+)|power_?(\d+)$")
# Limits, shares of the memory or of the power limit, what processes did, and the extremes beside a mean.
_UNMEANT = re.compile(
    r"\.process\.|processes|\bpid:\d|/(min|max|last)$|limit|power_?percent|memory_(allocated|usage_percentage|percent.*)$"
)
_UNMEANT_NAMED = 8
_BRACKET = re.compile(r"[\[(]\s*([^\])]*?)\s*[\])]")
_MEGA = re.compile(r"(?<=[a-z]_)M[JW]$")
_LIKE_A_UNIT = re.compile(r".*%.*|[a-z]{0,2}(w|wh|j|b|ib|hz)")
_FILLER = re.compile(
    r"^(benchmark|resources|metrics_daemon|collect|system|nvidia_smi|nvidia|node_[a-z0-9]+|cuda_\d+|gpu_\d+|_)_+"
)
_UNIT_WORD = re.compile(r"_(pct|percent|percentage|ratio|bytes|megabytes|kib|mib|gib|kb|mb|gb|w|watts|mw|milliwatts"
                        r"|uw|microwatts|kw|megawatts|c|celsius|ghz|mhz|hz|j|joules|mj|uj|kj|megajoules|kwh|wh|s|sec|secs"
                        r"|seconds|ms|us|ns|nanoseconds)$")  # fmt: skip
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
    said_so = [unit_said(text) for text in _BRACKET.findall(name)]
    if any(text not in UNITS and _LIKE_A_UNIT.fullmatch(text) for text in said_so):
        return None
    lowered = re.sub(
        r"(?<=[a-z0-9]{2})(?=[A-Z])", "_", _MEGA.sub(lambda found: unit_said(found[0]), name.strip())
    ).lower()
    lowered = re.sub(r"^[^/]+/(?=timestamp$)", "", lowered)  # nvitop's tag
    if _UNMEANT.search(lowered):
        return None
    number = _NUMBERED[0].search(lowered) or _NUMBERED[1].search(lowered)
    gpu = next((group for group in number.groups() if group), None) if number else None
    brackets = [text for text in said_so if text in UNITS]
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
                is_size = UNITS.get(said, 0.0) >= UNITS["kib"]
                meant = "memory_used_bytes" if is_size and column == "memory_utilization_ratio" else column
                return Meaning(meant, gpu, UNITS.get(said or usual, 1.0), is_sure=bool(said) or usual == "ratio")
    return None


def _column_of(step: str) -> str | None:
    """Return what a slot of the catalogue is here; None for a step to a column that no log is asked for."""
    name = {"memory_bytes": "memory_total", "memory_free_bytes": "memory_free"}.get(step, step)
    return (
        name if name in (*TABLES["gpu_samples"].names, "memory_total", "memory_free", "energy_joules_total") else None
    )


class LogRow(NamedTuple):
    """What one row says of a GPU: when (microseconds), values by column, and of which process and run where it says."""

    at: int
    values: dict[str, float]
    process: str = ""
    run: str = ""


@dataclass(slots=True)
class Gpu:
    """What a log says of one GPU: rows as they came, and what they come to by moment (log_moments), and facts.

    `uuid` is None where only a number is; `is_named` is False where not even that.
    """

    is_named: bool = False
    rows: list[LogRow] = field(default_factory=list)
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
    is_day_first: bool = False
    rows: int = 0
    skipped: int = 0
    unread: dict[str, object] = field(default_factory=dict)  # a cell of each column that had no number to tell
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
            if (found := moment(text, self.hints.timezone, day_first=self.log.is_day_first)) is not None:
                if isinstance(text, str) and not re.search(r"Z|UTC|[+-]\d\d:?\d\d$|^\s*[\d.eE+]+\s*$", text):
                    self.log.assume(
                        f"its times are {self.hints.timezone}, since it names no zone; --timezone says another"
                    )
                return found
        for raw in (facts.get("elapsed"), *told):
            if raw not in (None, "") and (found := elapsed(raw)) is not None:
                self.log.is_dated = False
                if CLOCK.match(str(raw)):
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
    """Put records into a log: each of one GPU, or with the GPU in the names of its columns.

    Raises:
        ValueError: it has several runs beside one another.
    """
    clock = _Clock(log, hints)
    unmeant: dict[str, None] = {}
    twins: set[str] = set()
    for record in records:
        log.rows += 1
        facts: dict[str, Any] = {}
        values: dict[str | None, dict[str, float]] = defaultdict(dict)
        for name, meaning in _meanings(tuple(record)):
            raw = record[name]
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
            column = _measured(meaning.column, unit)
            if value is None or column is None:
                if not BLANK.fullmatch("" if raw is None else str(raw)):
                    log.unread.setdefault(name, raw)
                continue
            sure = "" if meaning.is_sure or unit else "?"
            told = value * ((UNITS[unit] if unit else meaning.factor) if not sure else 1.0)
            if own.setdefault(column + sure, told) != told and column not in twins:
                twins.add(column)
                log.assume(f"{name} is left out, since another column says {column} too")
        _place(log, clock, record, facts, values)
    if log.kind == OWN_TABLE and unmeant:
        log.assume(f"{', '.join([*unmeant][:_UNMEANT_NAMED])} of it is not read: what that means is not known")


@lru_cache(256)
def _meanings(names: tuple[str, ...]) -> tuple[tuple[str, Meaning | None], ...]:
    """Return the columns of a record with what each means; of several that mean one thing the plainest comes first.

    Raises:
        ValueError: they are of several runs.
    """
    told = [(name, meaning_of(name)) for name in names]
    runs: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for name, meaning in told:
        if meaning is not None and meaning.column not in FACTS and " - " in name:  # as W&B exports a chart
            runs[meaning.gpu, meaning.column].add(name.rpartition(" - ")[0])
    several = next((sorted(each) for each in runs.values() if len(each) > 1), None)
    if several:
        raise ValueError(f"it has {len(several)} runs beside one another ({', '.join(several)}): export one")
    return tuple(sorted(told, key=lambda one: 0 if one[1] is None or one[1].column in FACTS else len(one[0])))


def _measured(column: str, unit: str) -> str | None:
    """Return the column that a cell is of, which its unit may tell better than the name; None where they disagree."""
    measure = measure_of(unit)
    if not unit or measure is None or measure in column or (measure == "bytes" and column.startswith("memory_")):
        return column if column != "memory_utilization_ratio" or measure != "bytes" else "memory_used_bytes"
    named = {"watts": "power_watts", "bytes": "memory_used_bytes", "celsius": "temperature_celsius"}
    return named.get(measure) if column == "utilization_ratio" else None


_NUMBERED_CELL = re.compile(r"(?:gpu|card|cuda|device|nvidia)?[ :#_-]*(\d+)(?:\.0)?", re.IGNORECASE)


def _place(log: Log, clock: _Clock, record: Record, facts: Record, values: _Values) -> None:
    host = str(facts.get("host") or record.get("Hostname") or "").split(":")[0]
    named = str(facts.get("uuid") or facts.get("bus") or "").strip()
    called = str(facts.get("index") or "").strip() if facts.get("index") != 0 else "0"
    found = _NUMBERED_CELL.fullmatch(called)
    index = int(found[1]) if found else None
    shared = values.get(None, {})
    numbered: list[str | None] = [gpu for gpu in values if gpu is not None] or [None]
    when = clock.at(facts, (host, str(numbered[0] or named or called)))
    if when is None:
        log.skipped += 1
        return
    if not values and not named and not called and not facts.get("lost"):
        return  # of a page of an exporter many lines are of no GPU
    for number in numbered:
        own = {**values.get(number, {}), **(shared if number is None else {})}
        gpu_index = int(number) if number is not None else index
        key = named or (f"gpu{gpu_index}" if gpu_index is not None else called or "gpu0")
        gpu = log.gpus[host, key]
        gpu.is_named = gpu.is_named or bool(named or called or number is not None)
        gpu.uuid, gpu.index = named or gpu.uuid, gpu_index if gpu_index is not None else gpu.index
        gpu.name = str(facts["name"]).strip() if facts.get("name") and not log.kind.startswith("code") else gpu.name
        if "window" in record:
            start, end, run = record["window"]
            gpu.windows.append((start, end, own.get("energy_joules", own.get("energy_joules?", 0.0)), run))
            continue
        gpu.rows.append(LogRow(when, own, str(facts.get("process") or ""), str(facts.get("run") or "")))
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
                reading["memory_used_bytes"] = reading.pop("memory_utilization_ratio?") * UNITS["mib"]


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
    return UNITS[unit]


def is_header(cells: Sequence[str]) -> bool:
    """Say whether a line names columns: at least one means something, and none of its cells is a number or a date."""
    return any(map(meaning_of, cells)) and not any(cell_of(one)[0] is not None or moment(one) for one in cells if one)


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
