"""What every family is made with: label values, and how many series there may be."""

from collections.abc import Iterable, Mapping

from prometheus_client import Metric

from agent.source import Value

MOST_SERIES = 1000  # of one family: a host has few GPUs and disks, and should have few runs

Labels = tuple[str, ...]


def label(value: Value) -> str:
    """Return a value as a label's. Bytes of a file name that are no text become question marks.

    One name that cannot be encoded would otherwise cost the whole scrape.
    """
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def family(name: str, words: str, kind: str, series: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """Return a family of exactly this name. Kind is gauge, counter or unknown.

    A counter's name ends in _total, which prometheus_client takes off and puts on again. Empty labels are left out:
    Prometheus makes no difference.
    """
    made = Metric(name.removesuffix("_total") if kind == "counter" else name, words, kind)
    for labels, value in series:
        made.add_sample(name, {of: named for of, named in labels.items() if named}, value)
    return made
