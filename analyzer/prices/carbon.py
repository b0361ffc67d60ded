"""How much carbon dioxide a kilowatt-hour stands for, by country or by a cloud's region, from tables that ship.

Both tables are data of the package codecarbon 3.3.2 (https://github.com/mlco2/codecarbon, MIT licence), columns picked:
`carbon_countries.csv`, the mean of a country's grid over a year, compiled there from Our World in Data; and
`carbon_cloud_regions.csv`, what Google publishes of its regions. Means of a year say nothing of an hour, and nothing of
contracts for green power: whoever knows better writes grams_per_kwh.
"""

import csv
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from pathlib import Path

_SOURCE = "codecarbon 3.3.2"
COUNTRIES = Path(__file__).with_name("carbon_countries.csv")
CLOUD_REGIONS = Path(__file__).with_name("carbon_cloud_regions.csv")


@dataclass(frozen=True, slots=True)
class Intensity:
    """Milligrams of CO2 equivalent for a kilowatt-hour, of what and by whom: "Germany, 2023; codecarbon 3.3.2"."""

    milligrams_per_kwh: Fraction
    told: str


def intensity(name: str) -> Intensity | None:
    """Return the intensity of a country ("DEU") or a cloud's region ("gcp europe-west4"); None: not in the tables."""
    return _table().get(name)


def near(name: str) -> str | None:
    """Return the name in the tables that is most like this one, or None."""
    found = get_close_matches(name, _table(), n=1) or get_close_matches(name.upper(), _table(), n=1)
    by_country = {one.told.partition(",")[0].casefold(): key for key, one in _table().items()}
    return by_country.get(name.casefold()) or (found[0] if found else None)


@cache
def _table() -> dict[str, Intensity]:
    found = {}
    with COUNTRIES.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            told = f"{line['country']}, {line['year']}; {_SOURCE}"
            found[line["iso3"]] = Intensity(_milligrams(line), told)
    with CLOUD_REGIONS.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            name = f"{line['provider']} {line['region']}"
            found[name] = Intensity(_milligrams(line), f"{name} ({line['place']}); {line['source']}, by {_SOURCE}")
    return found


def _milligrams(line: dict[str, str]) -> Fraction:
    return Fraction(Decimal(line["carbon_intensity_g_per_kwh"])) * 1000
