"""Which of the ledger's GPU kinds a line of an invoice is about, and how many GPUs one unit of it has.

Invoices name instance types. One is known where the list prices name it for one GPU kind and number alone; a mapping
file says the others, and goes first:

[[invoice]]
match = "p5.48xlarge"      # found in SkuId, SkuMeter, SkuPriceId, InstanceType, ChargeDescription; * and ? as in files
sku = "H100-80GB"          # as the ledger calls it
gpus = 8                   # in one unit that is priced
purchase_option = "reserved"   # optional; else by PricingCategory
"""

import csv
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from analyzer.finops.focus.read import BillLine
from analyzer.prices.list_prices import LIST_PRICES, canonical_sku
from analyzer.prices.options import PURCHASE_OPTIONS
from analyzer.settings.toml_model import between, one_of, optional, read_rows, toml_file, toml_key

_FIELDS = ("SkuMeter", "SkuId", "SkuPriceId", "ChargeDescription")
_WORDS = re.compile(r"[^A-Za-z0-9._+-]+")
# FOCUS has no owned: who sells capacity for a term writes Committed, who sells what is left over Dynamic.
_OPTIONS = {"Standard": "on_demand", "Committed": "reserved", "Dynamic": "spot"}


@dataclass(frozen=True, slots=True)
class BilledKind:
    """GPUs of one kind: how many one unit of the invoice has. `option` is None where the invoice does not say it."""

    sku: str
    gpus: int
    option: str | None


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the mapping file."""

    match: str
    sku: str
    gpus: int = field(metadata=toml_key(read=between(1, 1024)))
    option: str | None = field(metadata=toml_key("purchase_option", read=optional(one_of(PURCHASE_OPTIONS))))


@dataclass(frozen=True, slots=True)
class SkuMap:
    """Says which GPU kind a line is about: the site's rules first, then names of the ledger, then known instances."""

    rules: tuple[Rule, ...]
    kinds: frozenset[str]
    instances: Mapping[str, tuple[str, int] | None]

    @classmethod
    def of(cls, ledger_skus: Collection[str], path: Path | None = None) -> "SkuMap":
        """Make the map, with the rules of a file.

        Raises:
            ConfigError: the file cannot be read, or a row of it is wrong.
        """
        instances = known_instances()
        kinds = {kind[0] for kind in instances.values() if kind is not None}
        return cls(() if path is None else _read_rules(path), frozenset({*ledger_skus, *kinds}), instances)

    def kind(self, line: BillLine) -> BilledKind | None:
        """Return the GPU kind of a line, or None where it is about no GPU that is known."""
        option = _OPTIONS.get(line.pricing_category or "")
        texts = [line.instance_type or "", *(line.texts.get(name, "") for name in _FIELDS)]
        words = [word for text in texts for word in _WORDS.split(text.casefold()) if word]
        for rule in self.rules:
            pattern = rule.match.casefold()
            if any(fnmatchcase(text, pattern) for text in (*words, *map(str.casefold, texts))):
                return BilledKind(rule.sku, rule.gpus, rule.option or option)
        if (named := line.texts.get("SkuId")) in self.kinds and named is not None:
            return BilledKind(named, line.gpu_count or 1, option)
        found = {self.instances[word] for word in words if word in self.instances}
        if len(found) == 1 and (instance := found.pop()) is not None:
            return BilledKind(*instance, option)
        return None


def _read_rules(path: Path) -> tuple[Rule, ...]:
    """Return the rows of a mapping file in its order; the first that fits counts.

    Raises:
        ConfigError: the file cannot be read, or a row of it is wrong.
    """
    with toml_file(path, ("invoice",)) as (file, mistakes):
        return read_rows(file, "invoice", Rule, mistakes)


@cache
def known_instances(path: Path = LIST_PRICES) -> dict[str, tuple[str, int] | None]:
    """Return by instance type, in small letters, the GPU kind and number; None where the list prices disagree."""
    found: dict[str, set[tuple[str, int]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            name = line["instance_type"].casefold()
            if "(" not in name:  # "a3-highgpu (accelerator only)" is no instance type
                kind = canonical_sku(line["gpu_sku"], line["gpu_mem_gib"]), int(line["gpu_count"])
                found.setdefault(name, set()).add(kind)
    return {name: next(iter(kinds)) if len(kinds) == 1 else None for name, kinds in found.items()}
