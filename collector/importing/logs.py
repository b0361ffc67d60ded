"""Read the logs of GPUs that people already have, each kind a row of one table: its sign, and how it becomes readings.

Every kind is read as records, a mapping of names to cells; what a name means, and in which unit, log_names.py knows.
Sources: nvidia-smi(1), on --query-gpu, dmon and pmon; dcgmi dmon; gpustat --json; nvitop's ResourceMetricCollector; W&B
and MLflow system metrics; codecarbon's emissions.csv; ZeusMonitor's log_file; Prometheus HTTP API, query_range;
ClusterCockpit's job archive; the trace event format of Kineto; DLIO's summary.json.
"""

import csv
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from agent.wire.bounded import EXPOSED, exposed_labels, json_said
from agent.wire.tables import TABLES
from agent.wire.units import SECOND_US
from collector.errors import FileRefusedError
from collector.importing.log_cells import cell_of, cells_of, is_cut, is_day_first, moment
from collector.importing.log_moments import settle
from collector.importing.log_names import (
    FACTS,
    OWN_TABLE,
    Log,
    LogHints,
    Record,
    fill,
    guessed_names,
    is_header,
    judge_units,
    meaning_of,
)
from collector.importing.log_series import by_metric, by_series, is_of_metrics, labelled
from collector.importing.log_source import HEAD, LogSource, decoded, open_log

_CELLS_NAMED = 4
_ALL_PERCENT = 100.0
_HEADER_WITHIN = 20  # lines; others write their own words before
_TRACE_US = 100_000  # a trace is told in tenths of a second


def read_log(path: Path, hints: LogHints = LogHints()) -> Log:  # noqa: B008 - a frozen value
    """Return what a log says, of a file or of a folder that is one log.

    Raises:
        FileRefusedError: it cannot be read, or it is of no kind that is known; the sentence proposes what to say.
    """
    source = open_log(path, hints)
    if advice := next((way for sign, way in _FOR_PEOPLE if sign.search(source.head)), None):
        raise FileRefusedError(f"{path} is what {advice}")
    kind = _kind_of(source)
    if kind is None:
        raise FileRefusedError(
            f"cannot tell what {path} is: neither a table of the contract nor a log of {', '.join(kind_names())}; "
            "of a table of your own say the columns in order: --columns timestamp,index,utilization.gpu,power.draw"
        )
    log = Log(kind.name)
    if (day_first := is_day_first(source.text)) is None:
        log.assume("its dates are month/day/year")
    log.is_day_first = bool(day_first)
    try:
        fill(log, kind.records(source), hints)
        settle(log)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, csv.Error) as error:
        raise FileRefusedError(f"cannot read {path} as {kind.name}: {str(error)[:200]}") from error
    log.skipped += source.skipped
    for sentence in source.assumed:
        log.assume(sentence)
    log.run = source.run
    judge_units(log)
    cells = ", ".join(f"{name} ({str(cell)[:40]!r})" for name, cell in [*log.unread.items()][:_CELLS_NAMED])
    if not any(any(gpu.readings.values()) or gpu.windows or gpu.lost for gpu in log.gpus.values()):
        why = f": no cell of {cells} is a number with a unit that is known" if cells else ""
        raise FileRefusedError(f"{path} looks like {kind.name}, and has no reading of a GPU{why}")
    if cells:
        log.assume(f"cells that are no numbers are unknown, as in {cells}")
    return log


# What tools draw for people, by its sign, and what to log instead.
_SMI = "nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw,memory.used --format=csv -l 1"
_FOR_PEOPLE = (
    (
        re.compile(r"<nvidia_smi_log>|^\| NVIDIA-SMI \d|=NVSMI LOG=", re.MULTILINE),
        f"nvidia-smi shows people: log {_SMI}",
    ),
    (re.compile(r"^\[\d+\] [^|]+\|[^|]+%[^|]*\|", re.MULTILINE), "gpustat shows people: log gpustat --json"),
)


def kind_names() -> list[str]:
    """Return the kinds of logs that are read."""
    return [kind.name for kind in KINDS]


_CONTRACT = frozenset({"started_at", "owned_from", "run_id", "alias_run_id"})  # a table of the contract has one of them


def is_log(path: Path, hints: LogHints = LogHints()) -> bool:  # noqa: B008 - a frozen value
    """Say whether a path is read as a log, and not as a table of the contract: by what it begins with, then its name.

    Raises:
        FileRefusedError: it cannot be read.
    """
    if path.is_dir():
        return True
    if path.suffix.lower() in (".parquet", ".pq", ".arrow", ".arrows", ".ipc"):
        return False
    line = decoded(path, HEAD).split("\n", 1)[0]
    cells = {cell.strip(' "\r') for cell in line.split(",")}
    if _CONTRACT & cells and "emissions" not in line and not is_of_metrics(tuple(cells)):
        return False
    is_named = any(table in path.name.replace("-", "_") for table in TABLES)
    return not is_named or _kind_of(open_log(path, hints)) is not None


def _kind_of(source: LogSource) -> "Kind | None":
    return next((one for one in KINDS if one.is_one(source)), None)


def _of_csv(source: LogSource) -> Iterator[Record]:
    """Yield the rows of a table by its header, which may come again, or by names that are said or guessed."""
    names: list[str] = list(source.hints.columns)
    rows = list(cells_of(source.text))
    if not names and not any(map(is_header, rows[:_HEADER_WITHIN])):
        names = _guessed(source, rows)
    for number, cells in enumerate(rows):
        if is_header(cells) or (
            number == 0 and source.hints.columns and not any(cell_of(c)[0] is not None for c in cells)
        ):
            names = names if source.hints.columns else cells
            continue
        is_torn = number == len(rows) - 1 and number > 0 and is_cut(cells, rows[number - 1])
        if len(cells) != len(names) or is_torn:
            source.skipped += 1
            continue
        yield from by_series(by_metric(dict(zip(names, cells, strict=True))))


def _guessed(source: LogSource, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of columns that have none, by their units and values.

    Raises:
        FileRefusedError: they bear no units either; the sentence has the names to say if they are right.
    """
    width = statistics.mode(len(row) for row in rows)
    names, has_units = guessed_names(list(zip(*(row for row in rows if len(row) == width), strict=True)))
    if has_units:
        return names
    raise FileRefusedError(
        f"{source.path} has neither names nor units of its columns; if these are right, say so: "
        f"--columns {','.join(names)}"
    )


def _of_blanks(source: LogSource) -> Iterator[Record]:
    """Yield the rows of `nvidia-smi dmon` and `pmon` and of `dcgmi dmon`: names after a #, cells apart by blanks."""
    names: list[str] = []
    for line in source.text.splitlines():
        words = re.split(r"[,\s]+", re.sub(r"\b(GPU|Gpu)[ -](\d)", r"\2", line.strip().lstrip("# ")).strip())
        said = [word.lower() if word.lower() != "gpu" else "index" for word in words]
        if line.lstrip().startswith("#") and {"index", "entity"} & {*said}:
            names = said
        elif names and len(words) >= len(names) and words[0][0].isdigit():
            yield dict(zip(names, words, strict=False))
        elif any(map(str.isdigit, line)):  # the others name units
            source.skipped += 1


def _of_pmon(source: LogSource) -> Iterator[Record]:
    """Yield what the processes of a GPU did together: pmon tells of each for itself."""
    sums: dict[str, Any] = {}
    seen: set[tuple[str, str]] = set()
    at = None
    gpus: dict[str, dict[str, Any]] = {}
    for record in _of_blanks(source):
        now, who = (record.get("date"), record.get("time")), (record["index"], record["pid"])
        if now != at or who in seen:
            yield from gpus.values()
            gpus, seen, at = {}, set(), now
        seen.add(who)
        sums = gpus.setdefault(record["index"], {k: record[k] for k in ("date", "time", "index") if k in record})
        for name, unit in (("sm", "%"), ("mem", "%"), ("fb", " MiB")):
            value, _ = cell_of(record.get(name))
            if value is None and record["pid"] == "-" and name in record:
                value = 0.0 if name != "fb" else None  # no process, no work
            if value is not None:
                before = cell_of(sums.get(name))[0] or 0.0
                sums[name] = f"{min(before + value, 100.0) if unit == '%' else before + value:g}{unit}"
    yield from gpus.values()


def _of_objects(source: LogSource) -> Iterator[Record]:
    """Yield JSON objects: of gpustat and nvitop a list of GPUs in each, of others flat with the GPU in the names."""
    for document in source.documents:
        shared = {name: value for name, value in document.items() if not isinstance(value, list | dict)}
        gpus = next(
            (document[one] for one in ("gpus", "devices", "metrics") if isinstance(document.get(one), list)), None
        )
        for one in [document] if gpus is None else gpus:
            own = dict(_flat(one))
            if gpus is None and "_timestamp" in own:
                own.pop("_runtime", None)
            yield by_metric(own if gpus is None else {**shared, **own})


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, one in value.items():
        if isinstance(one, dict) and len(above) < 200:
            yield from _flat(one, f"{above}{name}.")
        elif not isinstance(one, list):
            yield f"{above}{name}", one


def _of_mlflow(source: LogSource) -> Iterator[Record]:
    """Yield MLflow's system metrics, a file a metric: milliseconds, value, step."""
    files = source.documents if source.path.is_dir() else [source.path]
    for file in files:
        node = re.fullmatch(r"node_(.+)", file.parent.name)
        for line in decoded(file).splitlines():
            words = line.split()
            if len(words) < 2 or moment(words[0]) is None:
                source.skipped += 1
                continue
            yield {"timestamp": float(words[0]), "hostname": node[1] if node else "", file.name: float(words[1])}


def _of_query_range(source: LogSource) -> Iterator[Record]:
    """Yield the points of a matrix, a series after another; a GPU's energy counter becomes what it grew by."""
    if "error" in source.first:
        raise ValueError(f"the server answered no data, but {source.first['error']}")
    if warnings := source.first.get("warnings"):
        source.assumed.append(f"the server warned: {str(warnings[0])[:200]}")
    told = source.first["data"]["result"] if "data" in source.first else map(_exported, source.documents)
    for series in told:
        labels = series["metric"]
        facts = labelled(labels)
        if "__name__" not in labels:
            most = max(float(value) for _, value in series.get("values") or [series["value"]])
            if most > _ALL_PERCENT:
                raise ValueError(
                    f"its series have no name and go to {most:g}: ask for a metric as it is, with its name"
                )
            source.assumed.append("its series have no name: they are taken for utilization in percent")
        for at, value in series.get("values") or [series["value"]]:
            yield {"timestamp": float(at), labels.get("__name__", "utilization"): str(value), **facts}


def _exported(series: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a series of VictoriaMetrics's /api/v1/export as a query_range has it."""
    points = zip(series["timestamps"], series["values"], strict=True)
    return {"metric": series["metric"], "values": [(at / 1000, value) for at, value in points if value is not None]}


def _of_page(source: LogSource) -> Iterator[Record]:
    """Yield the samples of saved pages of an exporter, which stand one after another; a page is a reading."""
    seen: set[str] = set()
    page = 0
    for line in source.text.splitlines():
        if (found := EXPOSED.match(line)) is None or line.startswith("#"):
            continue
        key = line[: found.end(2) if found[2] else found.end(1)]
        if key in seen:
            page, seen = page + 1, set()
        seen.add(key)
        facts = labelled(exposed_labels(found[2]))
        when = {"timestamp": float(found[4])} if found[4] else {"elapsed": page * (source.hints.every or 15.0)}
        yield {**when, found[1]: found[3], **facts}


def _of_codecarbon(source: LogSource) -> Iterator[Record]:
    """Yield the runs of emissions.csv, of each its last row: it is written again and again with what came to be."""
    rows = [row for row in _of_csv(source) if cell_of(row.get("gpu_energy"))[0] and row.get("timestamp")]
    for row in {(row.get("project_name"), row.get("run_id"), row.get("experiment_id")): row for row in rows}.values():
        end, seconds = moment(row["timestamp"], source.hints.timezone), cell_of(row["duration"])[0]
        if end is None or not seconds or seconds < 0:
            source.skipped += 1
            continue
        count = max(1, int(cell_of(row.get("gpu_count"))[0] or 1))
        joules = (cell_of(row["gpu_energy"])[0] or 0.0) * 3.6e6 / count
        for number in range(count):
            window = (end - round(seconds * SECOND_US), end, str(row.get("run_id") or ""))
            yield {"timestamp": end, "index": number, "gpu_energy": joules, "window": window}


def _of_zeus(source: LogSource) -> Iterator[Record]:
    """Yield the outermost windows of ZeusMonitor: those within another are part of its energy."""
    rows = [(cell_of(row["start_time"])[0], cell_of(row["elapsed_time"])[0], row) for row in _of_csv(source)]
    known = [(start, seconds, row) for start, seconds, row in rows if start is not None and seconds]
    until = -math.inf
    for start, seconds, row in sorted(known, key=lambda one: (one[0], -one[1])):
        if start < until - 1e-6:
            continue
        until = start + seconds
        at = round(start * SECOND_US)
        energies = {name: value for name, value in row.items() if name.startswith("gpu")}
        yield {"timestamp": at, **energies, "window": (at, at + round(seconds * SECOND_US), "")}


def _of_cockpit(source: LogSource) -> Iterator[Record]:
    """Yield a job of ClusterCockpit's archive: data.json, and beside it meta.json with the job and when it began."""
    meta = source.path.with_name("meta.json")
    job = json_said(decoded(meta)) if meta.exists() else {}
    if "jobId" in job:
        source.run = {"run_id": f"slurm/{job.get('cluster', 'cluster')}/{job['jobId']}"}
        source.run |= {name: str(job[name]) for name in ("user", "project") if job.get(name)}
    for metric, scopes in source.first.items():
        body = scopes.get("accelerator") or scopes.get("node") if isinstance(scopes, dict) else None
        if not metric.startswith("acc_") or not isinstance(body, dict):
            continue
        unit = body.get("unit") or {}
        said = f"{unit.get('prefix', '')}{unit.get('base', '')}" if isinstance(unit, dict) else str(unit)
        for number, series in enumerate(body["series"]):
            facts = {"hostname": series["hostname"], "bus_id": series.get("id") or f"gpu{number}"}
            for at, value in enumerate(series["data"]):
                seconds = at * body["timestep"]
                when = {"timestamp": job["startTime"] + seconds} if "startTime" in job else {"elapsed": seconds}
                yield {**when, **facts, f"{metric} ({said.replace('Byte', 'B')})": value}


def _of_kineto(source: LogSource) -> Iterator[Record]:
    """Yield how much of each tenth of a second had a kernel on each GPU; kernels side by side count once."""
    trace = source.first
    base = float(trace.get("baseTimeNanoseconds") or 0) / 1000
    names = {str(one["id"]): one for one in trace.get("deviceProperties", [])}
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") in ("kernel", "Kernel", "gpu_memcpy", "gpu_memset"):
            device = str(event.get("args", {}).get("device", 0))
            start = float(event["ts"]) + base
            spans[device].append((start, start + float(event["dur"]) if "kernel" in event["cat"].lower() else start))
    first = min((start for each in spans.values() for start, _ in each), default=0.0)
    last = max((end for each in spans.values() for _, end in each), default=0.0)
    step = min(_TRACE_US, max(1_000.0, (last - first) / 20))
    for device, each in spans.items():
        busy: dict[int, float] = defaultdict(float)
        until = -math.inf
        for start, end in sorted(each):
            at = max(start, until)
            until = max(until, end)
            while at < end:
                window = int((at - first) // step)
                edge = min(end, first + (window + 1) * step)
                busy[window] += edge - at
                if edge <= at:
                    break
                at = edge
        facts = {"index": device, "name": names.get(device, {}).get("name")}
        for window in range(math.ceil((last - first) / step) + 1):
            length = min(step, last - first - (window - 1) * step)
            share = busy[window - 1] / length if window and length > 0 else None
            at = min(first + window * step, last)
            when = {"timestamp": at} if at > 1e14 else {"elapsed": f"{at / 1e6:.6f}"}
            yield {**when, **facts, "utilization (ratio)": share}


def _of_dlio(source: LogSource) -> Iterator[Record]:
    """Yield the share of the time in which DLIO's emulated accelerators worked, by epoch, each as long as the next."""
    said = source.first
    start, end = (moment(said[name], source.hints.timezone) for name in ("start", "end"))
    shares = said["metric"]["train_au_percentage"]
    if start is None or end is None:
        raise ValueError("it has no start or no end")
    for gpu in range(int(said.get("num_accelerators", 1))):
        for number, share in enumerate([shares[0], *shares]):
            at = start + (end - start) * number // len(shares)
            yield {"timestamp": at, "index": gpu, "utilization [%]": share}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of log: what it is called, how it is known from its beginning, and how it is read as records."""

    name: str
    is_one: Callable[[LogSource], bool]
    records: Callable[[LogSource], Iterator[Record]]


def _begins(pattern: str) -> Callable[[LogSource], bool]:
    """Return what knows a kind by a line of its beginning."""
    expression = re.compile(pattern, re.MULTILINE | re.IGNORECASE)
    return lambda source: not source.documents and expression.search(source.head) is not None


def _has(*keys: str) -> Callable[[LogSource], bool]:
    """Return what knows a kind by the keys of its first JSON object."""
    return lambda source: all(any(re.search(key, name) for name in source.first) for key in keys)


def _has_names(source: LogSource) -> bool:
    """Say whether the first line names a time or a GPU's reading, or is of readings that can be guessed."""
    if source.documents or not source.text.strip():
        return False
    if source.hints.columns:
        return True
    rows = list(islice(cells_of(source.text), _HEADER_WITHIN))
    heads = [{found.column for cell in cells if (found := meaning_of(cell))} for cells in rows if is_header(cells)]
    return (
        any(head - FACTS for head in heads)
        or any(is_of_metrics(tuple(cells)) for cells in rows)
        or (moment(rows[0][0]) is not None and len(rows[0]) > 1)
    )


KINDS: tuple[Kind, ...] = (
    Kind("MLflow system metrics",
         lambda s: s.path.is_dir() or bool(re.match(r"gpu_\d+_", s.path.name) and re.match(r"\d{13} ", s.head)),
         _of_mlflow),
    Kind("a query_range of Prometheus", _has(r"^(data|error)$", r"^status$"), _of_query_range),
    Kind("an export of VictoriaMetrics", _has(r"^timestamps$", r"^metric$"), _of_query_range),
    Kind("a Kineto trace", _has(r"^traceEvents$"), _of_kineto),
    Kind("a ClusterCockpit archive", _has(r"^acc_"), _of_cockpit),
    Kind("a summary of DLIO or MLPerf Storage",
         lambda s: "train_au_percentage" in (s.first.get("metric") or {}), _of_dlio),
    Kind("gpustat --json", _has(r"^gpus$", r"^query_time$"), _of_objects),
    Kind("W&B system metrics", _has(r"^system\.gpu\.|^gpu\.\d+\.", r"^_(timestamp|runtime)$"), _of_objects),
    Kind("MLflow's metrics as JSON", _has(r"^(metrics|key)$"), _of_objects),
    Kind("nvitop's or nvtop's JSON", _has(r"gpu[:_.]?\d|^devices$|^gpus$|^gpu_util(ization)?$"), _of_objects),
    Kind("codecarbon's emissions.csv", _begins(r"^timestamp,.*\bgpu_energy\b"), _of_codecarbon),
    Kind("ZeusMonitor's log", _begins(r"^start_time,window_name,elapsed_time"), _of_zeus),
    Kind("W&B system metrics", _begins(r"system[./]gpu[._]\d"), _of_csv),
    Kind("nvitop's CSV", _begins(r"gpu:\d+\)?/"), _of_csv),
    Kind("nvidia-smi pmon", _begins(r"^#\s*(date[\s,]+)?(time[\s,]+)?gpu[\s,]+pid\b"), _of_pmon),
    Kind("nvidia-smi dmon", _begins(r"^#\s*(date[\s,]+)?(time[\s,]+)?gpu[\s,]+\w+"), _of_blanks),
    Kind("dcgmi dmon", _begins(r"^#\s*entity\b"), _of_blanks),
    Kind("a page of an exporter", _begins(r"^\w+\{.*\} \S+|^# (HELP|TYPE) "), _of_page),
    Kind("nvidia-smi --query-gpu", _begins(r"\[(%|MiB|W|MHz)\]|\d (%|MiB|W)\b|utilization\.gpu|power\.draw"), _of_csv),
    Kind(OWN_TABLE, _has_names, _of_csv),
)  # fmt: skip
