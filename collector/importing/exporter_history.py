"""Who held which GPU, by nothing but the labels of dcgm-exporter: a pod, or a Slurm job by its number.

That names no owner, no account and no end; it is what is left where no scheduler can be asked. A pod is then a run of
its own, `kubernetes/prod/research.train-0`, and a job `slurm/alpha/81234`.
"""

from collections.abc import Iterable, Mapping

from collector.importing.claims import Claim
from collector.importing.history import History
from collector.schedulers.poller import Value

_BRIDGED_US = 600_000_000  # a silence that a holder outlasts: labels come with samples, and samples may be missing
_Holding = tuple[str, str, str | None]  # run, host, member


def of_holders(holders: Iterable[Mapping[str, object]], cluster: str, since: int, until: int) -> History:
    """Return what the labels say of a span, microseconds UTC; `holders` as a pull of a Prometheus tells them."""
    spans: dict[_Holding, list[tuple[int, int, str]]] = {}
    for row in holders:
        key = _holding(row, cluster)
        if key is not None:
            start, end = max(int(str(row["started_at"])), since), min(int(str(row["ended_at"])), until)
            spans.setdefault(key, []).append((start, end, str(row["gpu_uuid"])))
    claims = [claim for key, listed in spans.items() for claim in _claims(key, sorted(listed), until)]
    return History(f"labels/{cluster}", until, claims)


def _holding(row: Mapping[str, object], cluster: str) -> _Holding | None:
    node = str(row["node"])
    if row.get("pod"):
        namespace = str(row.get("namespace") or "default")
        return f"kubernetes/{cluster}/{namespace}.{row['pod']}", node, f"{namespace}/{row['pod']}"
    return (f"slurm/{cluster}/{row['hpc_job']}", node, None) if row.get("hpc_job") else None


def _claims(key: _Holding, spans: list[tuple[int, int, str]], until: int) -> list[Claim]:
    """Return a claim for each stretch in which a holder was seen on a host without a long silence."""
    run_id, node, member = key
    found: list[tuple[int, int, set[str]]] = []
    for start, end, uuid in spans:
        if found and start <= found[-1][1] + _BRIDGED_US:
            found[-1] = (found[-1][0], max(found[-1][1], end), found[-1][2] | {uuid})
        elif end > start:
            found.append((start, end, {uuid}))
    facts: dict[str, Value] = {"scheduler": run_id.split("/", 1)[0], "name": (member or run_id).rsplit("/", 1)[-1]}
    if member is not None:
        facts["account"] = member.split("/", 1)[0]
    return [
        Claim(
            run_id=run_id,
            attempt=attempt,
            node=node,
            started_at=start,
            ended_at=None if end + _BRIDGED_US >= until else end,
            gpus=len(uuids),
            member=member,
            named=tuple((uuid, "told") for uuid in sorted(uuids)),
            facts=facts | {"requested_gpus": len(uuids)},
        )
        for attempt, (start, end, uuids) in enumerate(found)
    ]
