"""Say of a line of a bill which GPUs it is about, and how many GPU-hours it has.

Bills name instance types. One is known where the list prices name it for one GPU kind and number alone; a mapping
file says the others, and goes first:

[[invoice]]
match = "p5.48xlarge"      # found in SkuId, SkuMeter, SkuPriceId, InstanceType, ChargeDescription; * and ? as in files
sku = "H100-80GB"          # as the ledger calls it; "none": no GPU, whatever the line names
gpus = 8                   # of one machine; 0: a part of its price (cores, memory, a fee), cost without GPU-hours
purchase_option = "reserved"   # optional; else by PricingCategory

A unit is read by a small grammar, FOCUS's and what providers make of it: "[count] [thing-]time", "thing per time",
"thing/[count] time". What is counted decides: a machine has its GPUs, a GPU is one, a core or a gigabyte is none.

Source: FOCUS specification, attribute Unit Format.
"""

import re
from calendar import isleap, monthrange
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, TypeVar

from agent.wire.sku import sku
from agent.wire.units import HOUR_US
from analyzer.finops.focus.forms import azure_instance
from analyzer.finops.focus.read import BillLine
from analyzer.prices.list_prices import list_prices
from analyzer.prices.rows import PURCHASE_OPTIONS
from analyzer.settings.toml_model import between, one_of, optional, read_rows, toml_file, toml_key
from analyzer.text.words import counted

Thing = Literal["machine", "gpu", "part", "unknown"]
_Role = TypeVar("_Role", bound=str | int)

_SECONDS_OF = {
    1: "second seconds sec secs s",
    60: "minute minutes min mins",
    3_600: "hour hours hr hrs h",
    86_400: "day days d",
    604_800: "week weeks wk",
}
_MONTH, _YEAR = -1, -12  # of no fixed length: the calendar's, or 730 hours and 8,760
_SECONDS_OF |= {_MONTH: "month months mo mos mth mths", _YEAR: "year years yr yrs y"}
_WORDS_OF: Mapping[Thing, str] = {
    "machine": "machine machines instance instances vm vms node nodes host hosts server servers metal compute unit"
    " units",
    "gpu": "gpu gpus accelerator accelerators",
    "part": "core cores cpu cpus vcpu vcpus ocpu ocpus ecpu ecpus ram memory storage capacity disk"
    " b by byte bytes kb mb gb tb pb kib mib gib tib pib mby gby tby miby giby tiby"
    " kilobyte megabyte gigabyte terabyte gigabytes terabytes",
}
_PASSED_OVER = frozenset(("per", "of", "a", "each", "the", "x", "nvidia", "usage", "used", "running"))
_GPU_MEMORY = re.compile(r"^\d+gi?b$")  # H100 80GB
_JOINED = re.compile(r"(?<=[a-z])(hours?|hrs?)\b|\(s\)")
_BETWEEN = re.compile(r"[\s/*()_·-]+|\.(?=[a-z]+$)|\.$")  # Google writes GiBy.s
_COUNT = re.compile(r"^(\d[\d,]*(?:\.\d+)?)([km]?)$")
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_DAY_HOURS, _HOURS_OF_MONTH, _MONTHS_OF_YEAR = 24, 730, 12
_BLOCKS = (10, 100, 1_000, 10_000)
_SAME = Decimal("0.001")  # costs and quantities are rounded: a thousandth apart is the same


@dataclass(frozen=True, slots=True)
class Unit:
    """What a quantity counts, and for how long: `seconds` is below 0 for months and years, None where no time is."""

    thing: Thing
    seconds: int | None
    count: Decimal


def _roles(words: Mapping[_Role, str]) -> dict[str, _Role]:
    return {word: role for role, all_words in words.items() for word in all_words.split()}


_SECONDS, _THINGS = _roles(_SECONDS_OF), _roles(_WORDS_OF)


@cache
def _gpu_models() -> frozenset[str]:
    return frozenset(row.sku.split("-")[0].casefold() for row in list_prices())


@lru_cache(maxsize=1024)
def unit_of(text: str | None) -> Unit | None:
    """Return what a unit says; None where it cannot be understood, so that no hours follow from it."""
    joined = _JOINED.sub(lambda found: f" {found[1]}" if found[1] else "", (text or "").casefold())
    words = [
        word for word in _BETWEEN.split(joined) if word and word not in _PASSED_OVER and not _GPU_MEMORY.match(word)
    ]
    count, thing, seconds = Decimal(1), None, None
    for place, word in enumerate(words):
        if (number := _COUNT.match(word)) is not None:
            if place and _SECONDS.get(words[place + 1] if place + 1 < len(words) else "") is None:
                return None  # neither before all, nor before the time
            count *= Decimal(number[1].replace(",", "")) * _TIMES[number[2]]
        elif word in _SECONDS:
            if seconds is not None:
                return None  # GB/Second-Months
            seconds = _SECONDS[word]
        elif thing == "gpu" and count != 1 and _thing_of(word) == "machine":
            if count in _BLOCKS:
                return None  # 100 GPU Instance Hours
            count, thing = Decimal(1), "machine"  # 8-GPU Node Hour: the number is the node's
        else:
            thing = _thing_of(word)
    return Unit(thing or "machine", seconds, count) if count and (seconds is not None or thing is not None) else None


def _thing_of(word: str) -> Thing:
    if word in known_instances():
        return "machine"
    return _THINGS.get(word) or ("gpu" if word in _gpu_models() else "unknown")


@dataclass(frozen=True, slots=True)
class BilledKind:
    """GPUs of one kind: how many one machine has; 0 is a part of its price. `option` is None where nobody says it.

    `is_mapped` is of what the site's own file says.
    """

    sku: str
    gpus: int
    option: str | None
    is_mapped: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the mapping file."""

    match: str
    sku: str
    gpus: int | None = field(default=None, metadata=toml_key(read=optional(between(0, 1024))))
    option: str | None = field(
        default=None, metadata=toml_key("purchase_option", read=optional(one_of(PURCHASE_OPTIONS)))
    )

    def __post_init__(self) -> None:
        if self.gpus is None and self.sku != NO_GPU:
            raise ValueError("'gpus' is missing: how many GPUs one machine has, or 0 for a part of its price")


NO_GPU = "none"
_NAME_MOST = 160  # characters of what may have a GPU's name in it
_FIELDS = ("SkuMeter", "SkuId", "SkuPriceId", "ChargeDescription")
# What a line's kind follows from, beside the instance type and the number of GPUs of its details.
KIND_COLUMNS = (
    *_FIELDS, "CommitmentDiscountStatus", "ConsumedUnit", "PricingCategory", "PricingUnit", "ServiceCategory",
    "ServiceName",
)  # fmt: skip
_WORDS = re.compile(r"[^A-Za-z0-9._+-]+")
# FOCUS has no owned: who sells capacity for a term writes Committed, who sells what is left over Dynamic.
_OPTIONS = {"standard": "on_demand", "committed": "reserved", "dynamic": "spot"}
_SPOT = re.compile(r"\b(spot|preemptible|low[ -]priority)", re.IGNORECASE)
_FEE = re.compile(
    r"\b(fees?|management|surcharge|uplift|markup|commission|add-?on|ebsoptimi[sz]ed|support|marketplace|software|subscription"
    r"|ai enterprise|licen[cs](?:es?|ing)(?! (?:included|required)))\b",
    re.IGNORECASE,
)
_ONCE = re.compile(r"\b(set-?up|one-time|onboarding|shortfall)\b", re.IGNORECASE)  # where no time is counted
_TAX = re.compile(r"\b(vat|gst|hst|mwst|tva|iva|(sales|value[- ]added) tax)\b", re.IGNORECASE)
# Of AWS: hours for which capacity was held at no cost of its own; whoever used it, or did not, is billed beside it.
_HELD_CAPACITY = re.compile(r"(?:^|-)(?:Reservation|DedicatedRes):")
PART_OF_GPU = "a part of a GPU"
_PART_OF_GPU = re.compile(r"\b(mig|vgpu|slices?|fraction(al)?|time-?sliced|\dg\.\d+gb|1/[2-8])\b", re.IGNORECASE)
_NO_COMPUTE = frozenset(("storage", "networking", "databases", "security", "identity"))  # categories of FOCUS
_STORED = re.compile(r"\b(storage|volumes?|snapshots?|disks?|backups?|ssd|nvme|file ?systems?)\b", re.IGNORECASE)
_GPU_WORD, _SIZE_WORD = re.compile(r"[a-z0-9]+"), re.compile(r"^\d+gb$")
_HOST_PART = re.compile(r"\b(cores?|v?cpus?|ocpus?|ram|memory)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SkuMap:
    """Says which GPU kind a line is about: the site's rules first, then names of the ledger, then known instances."""

    rules: tuple[Rule, ...]
    kinds: frozenset[str]
    instances: Mapping[str, tuple[str, int] | None]

    @classmethod
    def of(cls, ledger_skus: Collection[str], *paths: Path) -> "SkuMap":
        """Make the map, with the rules of files in their order.

        Raises:
            ConfigError: a file cannot be read, or a row of it is wrong.
        """
        instances = known_instances()
        kinds = {kind[0] for kind in instances.values() if kind is not None}
        rules = tuple(rule for path in paths for rule in _read_rules(path))
        return cls(rules, frozenset({*ledger_skus, *kinds}), instances)

    def kind(self, line: BillLine) -> BilledKind | str:
        """Return the GPU kind of a line, or why it is about no GPU's time."""
        texts = [line.instance_type or "", *(line.texts.get(name, "") for name in _FIELDS)]
        words = _words_of(texts)
        option = _option_of(line, texts)
        for rule in self.rules:
            pattern = rule.match.casefold()
            if any(fnmatchcase(text, pattern) for text in (*words, *map(str.casefold, texts))):
                if rule.sku == NO_GPU:
                    return "mapped to no GPU"
                return BilledKind(rule.sku, rule.gpus or 0, rule.option or option, is_mapped=True)
        words.append(azure_instance(line.texts.get("SkuMeter", "")).casefold())
        named = _words_of(texts[:1]) or words  # what a text names beside the instance type is another machine
        found = {self.instances[word] for word in named if word in self.instances}
        instance = found.pop() if len(found) == 1 else None
        if instance is None or line.texts.get("SkuId") in self.kinds:
            instance = self._named(line) or instance
        if instance is None:
            return "no known GPU"
        if (line.texts.get("ServiceCategory", "")).casefold() in _NO_COMPUTE or _is_bytes(line, texts):
            return "storage or traffic"
        if any(map(_TAX.search, texts)) and not _is_time(line):
            return "tax"
        if any(map(_PART_OF_GPU.search, texts)):
            return PART_OF_GPU
        if _HELD_CAPACITY.search(line.texts.get("SkuMeter", "")) and not line.effective:
            return "capacity that was held"
        return "fee" if _is_fee(line, texts) else BilledKind(*instance, option)

    def _named(self, line: BillLine) -> tuple[str, int] | None:
        """Return the GPU kind that a line is called by, as whoever spells it: "NVIDIA H100 80GB" is H100-80GB.

        A text other than the SkuId's is believed where GPUs are counted: of a machine's hour it does not say how many.
        """
        unit = unit_of(line.unit)
        counts_gpus = unit is not None and unit.thing == "gpu"
        for name in ("SkuId", "SkuMeter", "ChargeDescription"):
            text = line.texts.get(name)
            if text is not None and (name == "SkuId" or counts_gpus) and len(text) <= _NAME_MOST:
                for kind in (text, sku(text, None), self._within(text) if counts_gpus else None):
                    if kind in self.kinds:
                        return kind, line.gpu_count or 1
        return None

    def _within(self, text: str) -> str | None:
        """Return the one GPU kind whose model a text names among other words: Nvidia H100 80GB GPU running in Iowa.

        Where it says no size the model must have one alone; of H100 and H100 NVL the longer name counts.
        """
        words = _GPU_WORD.findall(text.casefold())
        sizes = {word for word in words if _SIZE_WORD.match(word)}
        found: dict[int, set[str]] = {}
        for kind in self.kinds:
            *model, size = _GPU_WORD.findall(kind.casefold())
            if any(words[at : at + len(model)] == model for at in range(len(words))) and size in (sizes or {size}):
                found.setdefault(len(model), set()).add(kind)
        named = found[max(found)] if found else set()
        return named.pop() if len(named) == 1 else None


def _option_of(line: BillLine, texts: Collection[str]) -> str | None:
    if "CommitmentDiscountStatus" in line.texts:
        return "reserved"
    known = _OPTIONS.get((line.pricing_category or "").casefold())
    return known or ("spot" if any(map(_SPOT.search, texts)) else None)


def _words_of(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in _WORDS.split(text.casefold()) if word]


def _is_bytes(line: BillLine, texts: Collection[str]) -> bool:
    """Say whether bytes are counted without time, or are kept: what a machine sent or stored, not what it is."""
    unit = unit_of(line.unit)
    if unit is None or unit.thing != "part":
        return False
    return unit.seconds is None or any(map(_STORED.search, texts))


def _is_time(line: BillLine) -> bool:
    unit = unit_of(line.unit)
    return unit is not None and unit.seconds is not None


def _is_fee(line: BillLine, texts: Collection[str]) -> bool:
    """Say whether words tell that a line is a fee; of a commitment they name the hour that it covers."""
    told = (*texts, line.texts.get("ServiceName", ""), line.texts.get("ServiceCategory", ""))
    if "CommitmentDiscountStatus" in line.texts:
        return False
    return any(map(_FEE.search, told)) or (not _is_time(line) and any(map(_ONCE.search, told)))


def is_host_part(line: BillLine) -> bool:
    """Say whether a line that names no GPU is of a machine's cores or memory."""
    unit = unit_of(line.unit)
    named = any(_HOST_PART.search(line.texts.get(name, "")) for name in ("SkuMeter", "ChargeDescription"))
    return unit is not None and unit.seconds is not None and (named or unit.thing == "part")


def _read_rules(path: Path) -> tuple[Rule, ...]:
    """Return the rows of a mapping file in its order; the first that fits counts.

    Raises:
        ConfigError: the file cannot be read, or a row of it is wrong.
    """
    with toml_file(path, ("invoice",)) as (file, mistakes):
        return read_rows(file, "invoice", Rule, mistakes)


@cache
def known_instances() -> dict[str, tuple[str, int] | None]:
    """Return by instance type, in small letters, the GPU kind and number; None where the list prices disagree."""
    found: dict[str, set[tuple[str, int]]] = {}
    for row in list_prices():
        if "(" not in row.instance_type:  # "a3-highgpu (accelerator only)" is no instance type
            found.setdefault(row.instance_type.casefold(), set()).add((row.sku, row.gpus))
    return {name: next(iter(kinds)) if len(kinds) == 1 else None for name, kinds in found.items()}


@dataclass(frozen=True, slots=True)
class LineHours:
    """The time of a line: of machines (None where no machine is named), of GPUs, or why that is not known."""

    machine_hours: Decimal | None
    gpu_hours: Decimal | None
    why: str | None = None
    is_part: bool = False  # of a machine: cores, memory; or a discount


def hours_of_line(line: BillLine, kind: BilledKind) -> LineHours:
    """Return the GPU-hours of a line of this kind.

    A machine of the list prices that is one resource has no more hours than the charge is long; where it says more,
    something else is counted, and no hours follow.
    """
    is_discount = line.effective < 0 <= (line.quantity or 0)  # on time that another line has
    if kind.gpus == 0 or is_discount:
        return LineHours(None, Decimal(0), is_part=True)
    unit = unit_of(line.unit)
    why = _unclear(line, kind, unit)
    if unit is None or why is not None:
        return LineHours(None, None, why)
    if unit.thing == "part":
        return LineHours(None, Decimal(0), is_part=True)
    if not line.quantity:
        return LineHours(line.quantity, line.quantity, "their quantity is 0 or null")
    hours = _hours(line, unit, line.quantity)
    if hours is None:
        return LineHours(None, None, f"how long the unit {line.unit!r} is cannot be told")
    length = Decimal(line.end - line.start) / HOUR_US
    is_blind = line.resource is None or kind.is_mapped  # what the quantity is of has no bound
    if unit.count != 1 and _is_made_by(line, unit.count):
        if is_blind:
            return LineHours(None, None, f"its unit price is of {line.unit}, and its quantity may be of single ones")
        hours = hours / unit.count if hours > length * (1 + _SAME) else hours
    hours = _as_consumed(line, unit, hours)
    if unit.thing == "gpu" or _were_gpus(line, hours):
        is_named = kind.gpus > 1 and not kind.is_mapped
        return LineHours(hours / kind.gpus if is_named else None, hours)
    if not is_blind and abs(hours) > length * (1 + _SAME):
        also = ", or its last day is included" if abs(abs(hours) - length - _DAY_HOURS) <= _SAME else ""
        why = f"more hours than the charge is long ({line.unit} may count something else{also})"
        return LineHours(hours, None, why)
    return LineHours(hours, hours * kind.gpus)


def _unclear(line: BillLine, kind: BilledKind, unit: Unit | None) -> str | None:
    """Return why it cannot be told what a line counts."""
    if unit is None or unit.seconds is None or unit.thing == "unknown":
        return f"the unit {line.unit or 'null'!r} is no time of machines or GPUs"
    if unit.thing == "machine" and not kind.is_mapped and line.gpu_count not in (None, kind.gpus):
        return f"it names a machine of {counted(kind.gpus, 'GPU')}, and its details say {line.gpu_count}"
    return None


def _is_made_by(line: BillLine, count: Decimal) -> bool:
    """Say whether a unit price makes the cost only of a quantity that was not divided by the unit's count.

    Azure's exports wrote so until November 2024 (microsoft/finops-toolkit#727).
    """
    made, cost = (line.unit_price or Decimal(0)) * (line.quantity or 0), line.contracted or line.effective
    return bool(made) and abs(made - cost * count) <= abs(made) * _SAME


def _as_consumed(line: BillLine, unit: Unit, hours: Decimal) -> Decimal:
    """Return the hours that were consumed, where those that are priced differ by a block of 10, 100 or 1,000 alone.

    So it is where the unit price makes the cost of what was consumed alone: Google's view has one unit as the quantity.
    Other differences are real: minutes that are consumed are priced as an hour.
    """
    consumed_unit = unit_of(line.consumed_unit)
    if consumed_unit is None or consumed_unit.thing != unit.thing or not (line.consumed_quantity and hours):
        return hours
    consumed = _hours(line, consumed_unit, line.consumed_quantity)
    if not consumed:
        return hours
    blocks = max(consumed / hours, hours / consumed)
    if any(abs(blocks - size) <= size * _SAME for size in _BLOCKS):
        return consumed
    cost, priced = line.contracted or line.effective, (line.unit_price or 0) * (line.quantity or 0)
    is_made = abs(priced * consumed / hours - cost) <= abs(cost) * _SAME < abs(priced - cost)
    return consumed if is_made else hours


def _were_gpus(line: BillLine, hours: Decimal) -> bool:
    """Say whether as many GPU-hours were consumed as hours are priced: then GPUs are counted, and no machines."""
    unit = unit_of(line.consumed_unit)
    if unit is None or unit.thing != "gpu" or not line.consumed_quantity:
        return False
    return abs((_hours(line, unit, line.consumed_quantity) or 0) - hours) <= abs(hours) * _SAME


def _hours(line: BillLine, unit: Unit, quantity: Decimal) -> Decimal | None:
    """Return a quantity in hours. Of months, by the length by which whole things were held all the time."""
    quantity *= unit.count
    if unit.seconds is None or unit.seconds > 0:
        return quantity * (unit.seconds or 0) / 3_600
    began = datetime.fromtimestamp(line.start // 1_000_000, UTC)
    lengths = (24 * monthrange(began.year, began.month)[1], _HOURS_OF_MONTH)
    if unit.seconds == _YEAR:
        lengths = (24 * (365 + isleap(began.year)), _HOURS_OF_MONTH * _MONTHS_OF_YEAR)
    length = Decimal(line.end - line.start) / HOUR_US
    found = set()
    for candidate in lengths:
        things = quantity * candidate / length
        whole = things.to_integral_value()
        if whole and abs(things - whole) <= _SAME + abs(whole) * _SAME**2:
            found.add(whole * length)
    return found.pop() if len(found) == 1 else None
