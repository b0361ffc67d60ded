"""Our query conventions. docs/grafana.md says why each is one; a rule returns what is wrong, or None.

They read PromQL by its words, which is enough for queries that are made by dashboards/grafana/panels.py.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from agent.wire.dcgm import fields
from tests.dashboards.grafana.boards import Asking

DOCS = Path(__file__).parents[3] / "docs"
METRIC = re.compile(r"\b((?:gpuledger|DCGM_FI)_\w+)(?:\{([^{}]*)\})?")
COUNTED = re.compile(r"\b(rate|irate|increase|delta|deriv)\(\s*((?:gpuledger|DCGM_FI)_\w+)\{[^{}]*\}\[([^\]]+)\]")
LEGACY = {field.legacy: field for field in fields()}
DCGM_COUNTERS = {name for name, field in LEGACY.items() if field.kind == "counter"}
# The unit of a panel by how the name of a metric ends, and of a counter's growth a second.
UNITS = {
    "_ratio": "percentunit",
    "_bytes": "bytes",
    "_watts": "watt",
    "_celsius": "celsius",
    "_hertz": "hertz",
    "_usd": "currencyUSD",
    "_seconds": "s",
}
RATES = {"_bytes_total": "Bps", "_seconds_total": "percentunit", "_joules_total": "watt"}
AMOUNTS = {"_joules_total": "joule", "_bytes_total": "bytes", "_seconds_total": "s"}
# The unit of a panel by that of dcgm-exporter before 4.9, and what has to be done to it.
DCGM_UNITS = {
    "%": ("percent", ""),
    "0 to 1": ("percentunit", ""),
    "W": ("watt", ""),
    "degrees Celsius": ("celsius", ""),
    "bytes/s": ("Bps", ""),
    "MiB": ("bytes", " * 1048576"),
    "MHz": ("hertz", " * 1000000"),
    "mJ": ("joule", " / 1000"),
}
AGGREGATION = re.compile(r"\b(?:sum|avg|min|max|count|quantile|topk)\b")


def documented() -> set[str]:
    """Return every metric that docs/ tell of, dcgm-exporter's among them."""
    text = "".join((DOCS / name).read_text("utf-8") for name in ("metrics.md", "prometheus.md"))
    return set(re.findall(r"`((?:gpuledger|DCGM_FI)_\w+)`", text))


def metrics(expr: str) -> list[tuple[str, str]]:
    """Return the metrics that a query names, each with its matchers."""
    return METRIC.findall(expr)


def is_counter(metric: str) -> bool:
    """Say whether a metric grows for ever."""
    return metric.endswith("_total") or metric in DCGM_COUNTERS


def named(asking: Asking) -> str | None:
    """A name that nobody documents is one that nobody may rely on, and often a misspelt one."""
    unknown = {metric for metric, _ in metrics(asking.expr)} - documented()
    return f"not in docs/metrics.md or docs/prometheus.md: {', '.join(sorted(unknown))}" if unknown else None


def counted(asking: Asking) -> str | None:
    """The rate of a gauge is noise, and a counter as it is says nothing but how old its agent is."""
    under = {metric: function for function, metric, _ in COUNTED.findall(asking.expr)}
    for metric, function in under.items():
        if not is_counter(metric):
            return f"{function}() of {metric}, which is no counter"
    bare = [metric for metric, _ in metrics(asking.expr) if is_counter(metric) and metric not in under]
    return f"{bare[0]} without rate() or increase()" if bare else None


def ranged(asking: Asking) -> str | None:
    """A fixed range misses samples when zoomed out, and finds too few where the scrape is slow."""
    for function, metric, span in COUNTED.findall(asking.expr):
        wanted = ("$__rate_interval",) if function == "rate" else ("$__rate_interval", "$__range")
        if function not in ("rate", "increase") or span not in wanted:
            return f"{function}({metric}[{span}]): rate() over [$__rate_interval], or increase() over it or [$__range]"
    return None


def unit(asking: Asking) -> str | None:
    """Names end in their unit, so a panel cannot be in another; dcgm-exporter's are multiplied into it."""
    wanted = _units(asking.expr)
    if wanted and asking.unit not in wanted:
        return f"unit {asking.unit}, and the names say {' or '.join(sorted(wanted))}"
    return None


def _units(expr: str) -> set[str]:
    """Return the units that the names allow; none where they say nothing, as of counts."""
    if expr.startswith("count(") or re.search(r"[=<>] bool\b", expr):
        return {"none"}
    if expr.startswith("time() -"):
        return {"s"}
    if " / " in expr and "DCGM" not in expr:
        return {"percentunit"}
    functions = {metric: function for function, metric, _ in COUNTED.findall(expr)}
    joined = ("_info", "_up", "_supported")
    named = [metric for metric, _ in metrics(expr) if not metric.endswith(joined)]
    return {word for metric in named if (word := _unit_of(metric, functions.get(metric), expr))}


def _unit_of(metric: str, function: str | None, expr: str) -> str:
    if metric in LEGACY:
        word, scaling = DCGM_UNITS.get(LEGACY[metric].legacy_unit.name, ("none", ""))
        return word if scaling in expr else f"{word} after {scaling}"
    table = UNITS if function is None else RATES if function == "rate" else AMOUNTS
    return next((word for end, word in table.items() if metric.endswith(end)), "")


def filtered(asking: Asking) -> str | None:
    """A cluster's dashboard must not show another cluster; All is .*, which takes targets without the label too."""
    for metric, matchers in metrics(asking.expr):
        if 'cluster=~"$cluster"' not in matchers:
            return f'{metric} without cluster=~"$cluster"'
    return None


def bounded(asking: Asking) -> str | None:
    """A series for each GPU of a fleet is a browser that stands still: choose a node or a run, or aggregate."""
    one_by_one = [
        metric
        for metric, matchers in metrics(asking.expr)
        if metric.startswith(("gpuledger_gpu_", "gpuledger_process_", "gpuledger_run_", "gpuledger_flow_", "DCGM_FI_"))
        and not any(name in matchers for name in ('instance=~"$node"', 'run_id="$run"'))
    ]
    return (
        f"{one_by_one[0]} neither chosen nor aggregated" if one_by_one and not AGGREGATION.search(asking.expr) else None
    )


def once(asking: Asking) -> str | None:
    """Servers of one lake serve the same figures of the ledger: summed as they are, they would count double."""
    for match in re.finditer(r"gpuledger_fleet_(?!info)\w+", asking.expr):
        if not re.search(r"max by \([\w, ]+\) \($", asking.expr[: match.start()]):
            return f"{match[0]} is not taken once: max by (cluster, ...) first"
    return None


def averaged(asking: Asking) -> str | None:
    """Shares do not add up: the sum of two halves is no whole."""
    found = re.search(r"\bsum(?: by \([\w, ]+\) )?\(+(gpuledger_\w+_ratio|DCGM_FI_PROF_\w+_ACTIVE)\b", asking.expr)
    return f"a sum of {found[1]}: take the mean, or the worst" if found else None


def silent(asking: Asking) -> str | None:
    """`or vector(0)` shows 0 where nothing is known, and silence is not idleness."""
    return "or vector(...): what is not known is no number" if re.search(r"\bor\s+vector\(", asking.expr) else None


def legend(asking: Asking) -> str | None:
    """Lines that are called {instance="n14:9477", job="x", ...} are not read by anybody."""
    if asking.panel["type"] in ("timeseries", "bargauge") and asking.legend in ("", "__auto"):
        return "no legend"
    return None


def described(asking: Asking) -> str | None:
    """Who sees a panel at night must learn from it what it means."""
    defaults = asking.panel["fieldConfig"]["defaults"]
    if len(asking.panel.get("description", "")) < 20:
        return "no description"
    if not defaults.get("unit") or not defaults.get("thresholds", {}).get("steps"):
        return "no unit or no thresholds"
    return None


def tabled(asking: Asking) -> str | None:
    """A label that has no heading is a column that nobody asked for, and a heading without a label an empty one."""
    if asking.panel["type"] != "table":
        return None
    (tidy,) = [each for each in asking.panel["transformations"] if each["id"] == "organize"]
    headings = {name for name in tidy["options"]["renameByName"] if not name.startswith("Value")}
    found = re.search(r"by \(([\w, ]+)\)", asking.expr)
    labels = set(found[1].split(", ")) - {"cluster"} if found else set()
    return f"columns {sorted(headings)}, labels {sorted(labels)}" if labels != headings else None


RULES: Mapping[str, Callable[[Asking], str | None]] = {
    rule.__name__: rule
    for rule in (named, counted, ranged, unit, filtered, bounded, once, averaged, silent, legend, described, tabled)
}

# What a rule may not say of a panel, and why. A panel is named as a person finds it: "dashboard: title".
EXCLUSIONS: Mapping[tuple[str, str], str] = {
    ("unit", "node: The agent's own cost"): "processor seconds a second are cores, and may be more than one",
    ("unit", "run: Cores"): "processor seconds a second are cores, and may be more than one",
}


def complaints(asking: Asking) -> Iterator[str]:
    """Yield what the rules say of a query, less what is excluded."""
    for name, rule in RULES.items():
        if (name, asking.where) not in EXCLUSIONS and (said := rule(asking)):
            yield f"{asking.where}: {name}: {said}\n    {asking.expr}"
