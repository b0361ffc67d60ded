"""What catalogues offer, and which of it becomes a price: one price for a GPU and a way of paying, or none."""

import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.prices.money import dollars
from analyzer.settings.csv_lines import BoundedLines
from analyzer.settings.toml_entry import exact

_ROWS_MOST = 2_000_000
_NAME_MOST = 120
_GPUS_MOST = 1024
_FORMULA = ("=", "+", "-", "@")  # how a spreadsheet's formula begins: no name of an instance does
_NUMBER_MOST = 40
_TOLD = 8


@dataclass(frozen=True, slots=True)
class Offer:
    """One instance type in one place: its GPUs and its price an hour, as the catalogue has it."""

    sku: str
    purchase_option: str
    region: str
    zone: str | None
    instance_type: str
    gpus: int
    price: Fraction
    told: str  # the price as it was written

    @property
    def micros_per_gpu_hour(self) -> int:
        """One GPU's part of an hour, to the nearest millionth."""
        micros = self.price * 1_000_000 / self.gpus
        return (2 * micros.numerator + micros.denominator) // (2 * micros.denominator)


@dataclass(slots=True)
class Catalogue:
    """What a file offers, and how many of its rows were left out, by reason."""

    offers: list[Offer] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


class LeftOutError(ValueError):
    """A row is no offer of whole GPUs at a price; its message is the reason."""


def read_catalogue(
    path: Path, columns: Collection[str], offers_of: Callable[[Mapping[str, str]], Sequence[Offer]]
) -> Catalogue:
    """Return the offers of a CSV; rows of which `offers_of` says LeftOutError are counted by its reason.

    Raises:
        ConfigError: it cannot be read, is no CSV, or lacks a column.
    """
    found = Catalogue()
    for line in _lines(path, columns):
        try:
            found.offers += offers_of(line)
        except LeftOutError as reason:
            found.left_out[str(reason)] += 1
    return found


def _lines(path: Path, columns: Collection[str]) -> Iterator[Mapping[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            bounded = BoundedLines(path, file)
            lines = csv.DictReader(bounded, restval="")
            if lacking := [name for name in columns if name not in (lines.fieldnames or ())]:
                raise ConfigError(f"{path} is not such a catalogue: it has no column {', '.join(lacking)}")
            bounded.next_row()
            for number, line in enumerate(lines, 1):
                bounded.next_row()
                if number > _ROWS_MOST:
                    raise ConfigError(f"{path} has more than {_ROWS_MOST:,} rows; cut it to the provider that is paid")
                yield line
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text") from error
    except csv.Error as error:
        raise ConfigError(f"{path} is no CSV: {error}") from error


def name_of(text: str, what: str) -> str:
    """Return a name that may stand in a price file.

    Raises:
        LeftOutError: it is empty, too long, not printable, or begins as a formula does.
    """
    name = text.strip()
    if not name:
        raise LeftOutError(f"no {what}")
    if len(name) > _NAME_MOST or not name.isprintable() or name.startswith(_FORMULA):
        raise LeftOutError(f"{what} that is no name")
    return name


def number_of(text: str, what: str) -> Fraction:
    """Return a number above 0, exactly as written.

    Raises:
        LeftOutError: it is none.
    """
    try:
        number = exact(Decimal(text.strip())) if len(text) <= _NUMBER_MOST else None
    except InvalidOperation:
        number = None
    if not number:
        raise LeftOutError(f"no {what}")
    return number


def gpus_of(text: str) -> int:
    """Return how many GPUs an instance has.

    Raises:
        LeftOutError: none, or a part of one.
    """
    count = number_of(text or "0", "GPU")
    if count.denominator != 1:
        raise LeftOutError("a part of a GPU")
    if count > _GPUS_MOST:
        raise LeftOutError(f"more than {_GPUS_MOST:,} GPUs")
    return int(count)


def chosen_offers(offers: Sequence[Offer]) -> list[tuple[Offer, int]]:
    """Return one offer for each GPU and way of paying, with how many others cost the same.

    Raises:
        ConfigError: several prices or regions are left for one; which is paid is not ours to guess.
    """
    groups: dict[tuple[str, str], list[Offer]] = {}
    for offer in sorted(offers, key=_order):
        groups.setdefault((offer.sku, offer.purchase_option), []).append(offer)
    found = []
    for (sku, option), group in sorted(groups.items()):
        if len({(one.micros_per_gpu_hour, one.region) for one in group}) > 1:
            raise ConfigError(_contested(sku, option, group))
        found.append((group[0], len({(one.instance_type, one.zone) for one in group}) - 1))
    return found


def _contested(sku: str, option: str, group: Sequence[Offer]) -> str:
    told = list(
        dict.fromkeys(
            f"{one.zone or one.region} {one.instance_type} {dollars(one.micros_per_gpu_hour)}" for one in group
        )
    )
    more = f" and {len(told) - _TOLD} more" if len(told) > _TOLD else ""
    return (
        f"{sku} ({option}) has more than one price: {', '.join(told[:_TOLD])}{more}; say which is paid by --region,"
        " --instance-type or --sku"
    )


def _order(offer: Offer) -> tuple[str, str, int, str, str]:
    return offer.sku, offer.purchase_option, offer.micros_per_gpu_hour, offer.region, offer.instance_type
