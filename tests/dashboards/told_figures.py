"""Which figures of a page nobody else tells: not the command that its footer names, not the API, not a sheet."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from analyzer.text.words import percent

# What holds digits and is no figure: times, days, weeks, models of GPUs, names and ids of things.
NO_FIGURE = re.compile(
    r"\d{4}-\d{2}-\d{2}(T[\d:.]+Z?)?|\d{4}-(W\d{2}|\d{2})|\d{1,2}:\d{2}(:\d{2})?"
    r"|\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{1,2} \w{3}|\b\d{1,2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b"
    r"|[\w.]*[a-zA-Z_][\w.]*([-/][\w.+]+)*|[\w.]+-[\w.-]*[a-zA-Z][\w.-]*|(?<=/)\d[\w]*"
)
FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")
HOUR_US = 3_600_000_000
SCALES = (1, 10**6, 3_600_000, 60_000_000, 3_600_000_000, 0.01, 10, 10**3, 10**9, 10**12, 60, 3_600, 2**20, 2**30)


def figures(text: str) -> list[str]:
    """Return the figures of a text, without the commas that part thousands."""
    plain = NO_FIGURE.sub(" ", text.replace("\u00a0", " "))
    return [found.replace(",", "").rstrip(".") for found in FIGURE.findall(plain)]


class Told:
    """What sources tell: figures as they are printed, and exact numbers that are printed in some unit."""

    def __init__(self) -> None:
        self._printed: set[str] = set()
        self._exact: set[float] = set()
        self._rounded: dict[int, set[str]] = {}

    def add_text(self, text: str) -> None:
        """Add what a command prints."""
        self._printed.update(figures(text))

    def add_json(self, text: str) -> None:
        """Add a document of the API: its numbers, how many items each of its lists has, and its words."""
        for leaf in _leaves(json.loads(text)):
            if isinstance(leaf, str):
                self.add_text(leaf)
            else:
                self._exact.add(abs(leaf))

    def add_numbers(self, numbers: Iterable[float]) -> None:
        """Add exact numbers."""
        self._exact.update(map(abs, numbers))

    def tells(self, figure: str) -> bool:
        """Whether a figure is printed by a source, or is a source's number, rounded."""
        places = len(figure.partition(".")[2])
        if places not in self._rounded:
            half_up = 10.0**-9  # what lies between two is rounded up
            self._rounded[places] = {f"{each / scale + half_up:.{places}f}" for each in self._exact for scale in SCALES}
        return figure in self._printed or figure in self._rounded[places]


def _leaves(value: Any) -> Iterator[float | str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _leaves(each)
    elif isinstance(value, list):
        yield len(value)
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield value


def shares(items: list[dict[str, Any]], of: str) -> str:
    """Return in words how the time of each GPU or run went, by the ledger's rows, and how many are told by which state.

    Shares are of all its time, with and without a digit, and of what was measured.
    """
    sums: dict[object, Counter[tuple[str, str]]] = defaultdict(Counter)
    nodes = {}
    for item in items:
        if item[of] is not None:
            sums[item[of]][item["class"], item["label"]] += item["milliseconds"]
            nodes[item[of]] = item.get("node")
    found, most = [], Counter[tuple[object, str]]()
    for key, labels in sums.items():
        whole = labels.total()
        measured = whole - sum(each for (_, label), each in labels.items() if label == "not measured")
        useful = sum(each for (klass, _), each in labels.items() if klass == "useful")
        found += [percent(useful, measured), f"{whole}"]
        for each in labels.values():
            found += [percent(each, whole), percent(each, measured), f"{round(100 * each / whole)}%"]
        label = max(labels, key=lambda each: labels[each])[1]
        most[nodes[key], label] += 1
        most["all", label] += 1
    return " ".join([*found, f"{len(sums)}", *map(str, most.values())])


def averages(items: list[dict[str, Any]], start: int, hours: int) -> list[float]:
    """Return how many GPUs were in each class on average, of so many hours each from the start on."""
    sums: Counter[tuple[int, str]] = Counter()
    for item in items:
        sums[(item["hour"] - start) // (hours * HOUR_US), item["class"]] += item["milliseconds"]
    return [each / (hours * 3_600_000) for each in sums.values()]
