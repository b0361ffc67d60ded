"""What a server has, and what is asked of it for each metric.

Which exporters and metrics, how many GPUs on how many hosts, and how often they are scraped. GPUs, disks and links are
asked for sample by sample. A host's processors are not: node_exporter has a series for each of hundreds of them, more
than all of a host's GPUs. The server averages them, and a row of a host then stands for some scrapes instead of one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agent.wire.units import MILLISECOND_US
from collector.errors import ServerError
from collector.pipeline.decoding.validation import pc
from collector.prometheus.client import Client, SeriesAnswer, Server
from collector.prometheus.gathering import repeated_values
from collector.prometheus.labels import Labels, Namesakes, Subject, gpu_facts, subject, target_pod
from collector.prometheus.names import OF_INSTANCES, RANK, Metric, Slot, catalogue
from collector.prometheus.pivot import LONGEST_STEP, REACH, commonest_steps, shifted

_LOOKS = 24  # moments at which is asked who is there: who is never there at any of them is found later, or not at all
_LOOK_MILLISECONDS = 600_000
_ALL_NAMES = '{__name__=~"DCGM_FI_.+|gpuledger_.+|nvidia_smi_.+|node_.+|vllm:.+|nv_.+|tgi_.+"}'


@dataclass(frozen=True, slots=True)
class Survey:
    """What a server has in a span, before anything is pulled."""

    server: str  # prometheus or victoriametrics, with its version where it says one
    exporters: tuple[str, ...]  # dcgm-exporter, dcgm-exporter 4.9, gpuledger, nvidia_gpu_exporter, node_exporter
    metrics: tuple[str, ...]  # the names that the contract has a column for
    gpus: int  # of which MIG instances count one by one
    hosts: int
    scrape_seconds: float | None  # the commonest time between two scrapes of a GPU; None where there are no two
    nodes: frozenset[str] = field(repr=False, default=frozenset())  # hosts with GPUs
    models: Mapping[str, int] = field(repr=False, default_factory=dict)  # GPUs by the driver's product name
    other_names: Mapping[str, str] = field(repr=False, default_factory=dict)  # of hosts, whose name is the value


def survey(client: Client, since: int, until: int, cluster: str = "") -> Survey:
    """Return what the server has between two times, microseconds UTC.

    Where it has several clusters whose hosts bear the same names, it is that of the cluster of this name which is asked
    for from then on.

    Raises:
        ServerError: it cannot be reached, refuses us, is no Prometheus, or nobody says which of several clusters is
            meant.
    """
    begin, end = since // MILLISECOND_US, until // MILLISECOND_US
    listed = [catalogue()[name] for name in client.names("__name__", _ALL_NAMES, begin, end) if name in catalogue()]
    metrics = sorted(listed, key=lambda metric: (RANK[metric.exporter], metric.name))
    gpus: dict[Subject, str] = {}
    step: int | None = None
    of_targets = target_labels(client, begin, end)
    parted = [metric for metric in of_instances(metrics) if client.names("GPU_I_ID", metric.name, begin, end)]
    for metric in [*primaries(metrics), *parted]:
        seen, its_step, namesakes = _census(client, metric, begin, end, of_targets)
        if namesakes is not None:
            client.server = _chosen(client.server, *namesakes, cluster)
            return survey(client, since, until)
        believed = {found.key("gpu_uuid") for found in gpus}
        gpus |= {found: model for found, model in seen.items() if found.key("gpu_uuid") not in believed}
        step = step or its_step
    hosts = _other_names(gpus)
    gpus = {replace(found, node=hosts.get(found.node, found.node)): model for found, model in gpus.items()}
    models: dict[str, int] = {}
    for model in gpus.values():
        models[model] = models.get(model, 0) + 1
    nodes = frozenset(found.node for found in gpus)
    return Survey(
        server=_server(client),
        exporters=tuple(dict.fromkeys(metric.exporter for metric in metrics)),
        metrics=tuple(metric.name for metric in metrics),
        gpus=len(gpus),
        hosts=len(nodes),
        scrape_seconds=None if step is None else step / 1000,
        nodes=nodes,
        models=models,
        other_names=hosts,
    )


def _other_names(gpus: Collection[Subject]) -> dict[str, str]:
    """Return by its name with a domain the name of a host that scrapers call both ways: it has a GPU under either."""
    nodes: dict[str | None, set[str]] = {}
    for found in gpus:
        nodes.setdefault(found.key("gpu_uuid"), set()).add(found.node)
    return {
        long: short for names in nodes.values() for long in names for short in names if long.startswith(f"{short}.")
    }


def host_names(client: Client, begin: int, end: int, tables: Collection[str]) -> dict[str, str]:
    """Return what hosts call themselves, by the instance label of their node_exporter; times in milliseconds UTC.

    Of that exporter's metrics only one names the host. Nothing is asked where none of them is wanted.
    """
    if "host_samples" not in tables:
        return {}
    told = client.samples("node_uname_info", max(begin, end - _LOOK_MILLISECONDS), end).labels
    return {labels["instance"]: labels["nodename"] for labels in told if "instance" in labels and "nodename" in labels}


def target_pods(client: Client, begin: int, end: int) -> frozenset[tuple[str, str]] | None:
    """Return the pods that were scraped, namespace and name, as `up` tells; None where the server tells of no target.

    Times are milliseconds UTC.
    """
    series = client.json(
        "/api/v1/series", [("match[]", client.selector('up{pod!=""}')), ("start", begin / 1000), ("end", end / 1000)]
    )
    found = (
        {pod for one in series if isinstance(one, dict) and (pod := target_pod(one))}
        if isinstance(series, list)
        else set()
    )
    return frozenset(found) if found or client.names("job", "up", begin, end) else None


def target_labels(client: Client, begin: int, end: int) -> frozenset[str] | None:
    """Return the names of the labels that targets have, as `up` tells; None where the server does not say.

    Times are milliseconds UTC.
    """
    try:
        found = client.json(
            "/api/v1/labels", [("match[]", client.selector("up")), ("start", begin / 1000), ("end", end / 1000)]
        )
    except ServerError:  # of an old server, or of one that keeps it to itself
        return None
    return frozenset(name for name in found if isinstance(name, str)) or None if isinstance(found, list) else None


def of_instances(metrics: list[Metric]) -> list[Metric]:
    """Return one metric of each kind of GPU exporter that MIG instances have too, as its use is of whole GPUs alone."""
    chosen: dict[int, Metric] = {}
    for metric in metrics:
        if metric.slots[0].table == "gpu_samples" and metric.slots[0].column in OF_INSTANCES:
            chosen.setdefault(RANK[metric.exporter], metric)
    return list(chosen.values())


def primaries(metrics: list[Metric]) -> list[Metric]:
    """Return one metric of each kind of GPU exporter, that every GPU has: its use, else whatever there is."""
    chosen: dict[int, Metric] = {}
    for metric in metrics:
        columns = [slot.column for slot in metric.slots if slot.table == "gpu_samples"]
        rank = RANK[metric.exporter]
        if columns and "known" not in columns and (rank not in chosen or "utilization_ratio" in columns):
            chosen.setdefault(rank, metric)
            if "utilization_ratio" in columns:
                chosen[rank] = metric
    return [chosen[rank] for rank in sorted(chosen)]


def _chosen(server: Server, host: str, label: str, values: Sequence[str], cluster: str) -> Server:
    """Return the server, asked for one of the clusters in which a host's name stands.

    Raises:
        ServerError: nobody says which.
    """
    matchers = [f'{label}="{value}"' for value in values]
    if cluster not in values:
        raise ServerError(
            f"{server.url} has {' and '.join(matchers)}, each with hosts called {host}: choose one with "
            f"--match '{matchers[0]}' or --cluster {values[0]}"
        )
    return replace(server, match=",".join(filter(None, (server.match, f'{label}="{cluster}"'))))


_Namesakes = tuple[str, str, Sequence[str]]  # a host, the label that tells its namesakes apart, its values


def _namesakes(
    subjects: Sequence[Subject | None], labels: Sequence[Labels], of_targets: frozenset[str] | None
) -> _Namesakes | None:
    """Return a host that has two GPUs of one number at a time, with the label by which they are of two clusters."""
    known = Namesakes(of_targets)
    for found, said in zip(subjects, labels, strict=True):
        apart = None if found is None else known.foreign(found, gpu_facts(said).index, partial(dict, said))
        if found is not None and apart is not None:
            return found.node, apart[0], sorted({one[apart[0]] for one in labels if one.get(apart[0])})
    return None


def _census(
    client: Client, metric: Metric, begin: int, end: int, of_targets: frozenset[str] | None
) -> tuple[dict[Subject, str], int | None, _Namesakes | None]:
    """Return the GPUs that a metric names, with their models, and the commonest time between two scrapes.

    And a host whose name stands for several, if there is one.
    """
    gpus: dict[Subject, str] = {}
    step: int | None = None
    length = min(_LOOK_MILLISECONDS, end - begin)
    for number in range(_LOOKS):
        at = end - (end - begin - length) * number // _LOOKS  # from the end backwards
        answer = client.samples(metric.name, at - length, at)
        subjects = [subject(metric, metric.slots[0], labels) for labels in answer.labels]
        if (namesakes := _namesakes(subjects, answer.labels, of_targets)) is not None:
            return gpus, step, namesakes
        for found, labels in zip(subjects, answer.labels, strict=True):
            if found is not None:
                gpus.setdefault(found, labels.get("modelName") or labels.get("name") or "")
        if step is None and len(answer.times) > len(subjects):
            step = _step(answer)
        if end - begin <= length:
            break
    return gpus, step, None


def _step(answer: Any) -> int | None:  # noqa: ANN401 - Answer
    """Return the commonest time between two samples of a series, milliseconds."""
    whose = repeated_values(list(range(len(answer.lengths))), answer.lengths)
    same = pc.fill_null(pc.equal(shifted(whose), whose), False)
    distances = pc.subtract(answer.times, shifted(answer.times)).filter(same)
    one = pc.multiply(whose.filter(same), 0)
    return commonest_steps(one, distances).get(0)


def _server(client: Client) -> str:
    if client.exports:
        return "victoriametrics"
    said = client.json("/api/v1/status/buildinfo")
    version = said.get("version") if isinstance(said, dict) else None
    return f"prometheus {version}" if isinstance(version, str) else "prometheus"


HOST_SCRAPES = 4  # that a row of a host stands for: a rate needs two, of which one may be missing
_LEVELLED = "host_samples"


@dataclass(frozen=True, slots=True)
class Question:
    """One metric to ask for. Without an expression its samples are asked for as they are stored."""

    metric: Metric  # as the answer is to be read
    expression: str | None = None  # with %s for the selector
    selector: str = ""
    step: int | None = None  # of the answer, milliseconds

    def ask(self, client: Client, since: int, until: int) -> SeriesAnswer:
        """Return the samples of a window and of what lies just before it, milliseconds UTC.

        Raises:
            ServerError: as the client's.
        """
        if self.expression is None or self.step is None:
            return client.samples(self.metric.name, since - round(LONGEST_STEP * REACH), until)
        first = (since // self.step - 1) * self.step
        return client.evaluated(
            self.expression % client.selector(self.selector), first, until // self.step * self.step, self.step
        )


def questions(metrics: Sequence[Metric], tables: Sequence[str], usual: int, step: int | None) -> list[Question]:
    """Return what is to be asked, the better exporters first; `usual` is the scrape interval, milliseconds."""
    asked: list[Question] = []
    ours = {slot.table for metric in metrics if metric.exporter == "gpuledger" for slot in metric.slots}
    for metric in metrics:
        taken = ours if metric.exporter in ("node_exporter", "serving") else frozenset[str]()
        slots = tuple(slot for slot in metric.slots if slot.table in tables and slot.table not in taken)
        if slots:
            asked += _of_metric(replace(metric, slots=slots), usual, step)
    return asked


def table_steps(asked: Sequence[Question]) -> dict[str, int]:
    """Return of each table how far apart the answers are, where they are not as far as the scrapes."""
    return {slot.table: one.step for one in asked if one.step is not None for slot in one.metric.slots}


def _of_metric(metric: Metric, usual: int, step: int | None) -> Iterator[Question]:
    if metric.exporter == "node_exporter" and metric.slots[0].table == _LEVELLED:
        over = step or HOST_SCRAPES * usual
        for slot in metric.slots:
            level = replace(slot, reading="value", parts="")  # the server has worked it out already
            only = f'{{{slot.only[0]}=~"{"|".join(slot.only[1])}"}}' if slot.only else ""
            yield Question(replace(metric, slots=(level,)), _mean(slot, over), f"{metric.name}{only}", over)
    elif step is None:
        yield Question(metric)
    else:
        counts = any(slot.reading in ("growth", "share", "news") for slot in metric.slots)
        yield Question(metric, f"{'last' if counts else 'avg'}_over_time(%s[{step}ms])", metric.name, step)


def _mean(slot: Slot, over: int) -> str:
    """Return the expression for the mean of a level, or for the share of the time that a counter of seconds tells."""
    if slot.reading == "value":
        return f"avg_over_time(%s[{over}ms])"
    share = f"rate(%s[{over}ms])"
    return f"clamp_max({f'avg without ({slot.parts}) ({share})' if slot.parts else share}, 1)"
