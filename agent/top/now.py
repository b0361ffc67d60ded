"""What an agent's page of metrics says of its GPUs now. What it does not say is None, and never 0."""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.sources.services.exposition import Sample, samples

_THROTTLES = ("thermal", "hardware", "power", "sync_boost")  # of equal ones the first is told
_GAUGES = ("up", "utilization_ratio", "sm_active_ratio", "memory_used_bytes", "power_watts", "temperature_celsius")
_WANTED = {
    "gpuledger_gpu_info",
    "gpuledger_gpu_run_info",
    "gpuledger_agent_build_info",
    "gpuledger_process_workers",
    "gpuledger_gpu_supported",
    *(f"gpuledger_gpu_{name}" for name in _GAUGES),
    *(f"gpuledger_gpu_throttle_{why}_seconds_total" for why in _THROTTLES),
}


@dataclass(frozen=True, slots=True)
class HoldingRun:
    """A run that holds a GPU. `processes` is its tree there, None where the agent sees none."""

    run_id: str
    name: str
    user: str
    processes: int | None


@dataclass(frozen=True, slots=True)
class GpuNow:
    """One GPU, or one MIG instance."""

    gpu_uuid: str
    index: int | None
    sku: str
    parent_uuid: str
    up: bool | None
    utilization_ratio: float | None
    sm_active_ratio: float | None
    memory_used_bytes: int | None
    power_watts: float | None
    temperature_celsius: float | None
    throttled_seconds: Mapping[str, float]  # by reason, since the agent began
    held: tuple[HoldingRun, ...]
    lists_holders: bool = True  # False: the driver does not say who holds it, so that nobody is not nobody


@dataclass(frozen=True, slots=True)
class HostNow:
    """One reading of one host's agent."""

    node: str
    agent_version: str
    gpus: tuple[GpuNow, ...]


def host_now(text: str) -> HostNow:
    """Return what a page says; pure, and safe on any text."""
    found = samples(text, _WANTED)
    (build,) = found.get("gpuledger_agent_build_info", [])[:1] or [Sample({}, 1)]
    known = {sample.labels.get("gpu_uuid", ""): sample.labels for sample in found.get("gpuledger_gpu_info", ())}
    names = {sample.labels.get("gpu_uuid", "") for sample in found.get("gpuledger_gpu_up", ())} | set(known)
    gpus = [_gpu(one, known.get(one, {}), found) for one in names]
    order = sorted(gpus, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.parent_uuid != "", gpu.gpu_uuid))
    return HostNow(build.labels.get("node", ""), build.labels.get("version", ""), tuple(order))


def _gpu(uuid: str, info: Mapping[str, str], found: Mapping[str, list[Sample]]) -> GpuNow:
    def of(name: str) -> float | None:
        values = [each.value for each in found.get(f"gpuledger_gpu_{name}", ()) if each.labels.get("gpu_uuid") == uuid]
        return values[0] if values else None

    index, up, memory = info.get("gpu_index", ""), of("up"), of("memory_used_bytes")
    throttled = {why: of(f"throttle_{why}_seconds_total") for why in _THROTTLES}
    return GpuNow(
        uuid,
        int(index) if index.isdecimal() else None,
        info.get("sku", ""),
        info.get("parent_uuid", ""),
        None if up is None else up > 0,
        of("utilization_ratio"),
        of("sm_active_ratio"),
        None if memory is None else int(memory),
        of("power_watts"),
        of("temperature_celsius"),
        {why: seconds for why, seconds in throttled.items() if seconds is not None},
        _held(uuid, found),
        not any(
            each.labels.get("gpu_uuid") == uuid and each.labels.get("subject") == "processes" and each.value == 0
            for each in found.get("gpuledger_gpu_supported", ())
        ),
    )


def _held(uuid: str, found: Mapping[str, list[Sample]]) -> tuple[HoldingRun, ...]:
    trees = {
        each.labels.get("run_id", ""): int(each.value) + 1  # the workers are below their root
        for each in found.get("gpuledger_process_workers", ())
        if each.labels.get("gpu_uuid") == uuid
    }
    holders = [each.labels for each in found.get("gpuledger_gpu_run_info", ()) if each.labels.get("gpu_uuid") == uuid]
    return tuple(
        HoldingRun(one.get("run_id", ""), one.get("name", ""), one.get("user", ""), trees.get(one.get("run_id", "")))
        for one in sorted(holders, key=lambda one: one.get("run_id", ""))
    )


def slowed(before: GpuNow | None, now: GpuNow, seconds: float) -> tuple[str, float] | None:
    """Return what held a GPU's clock down most between two looks, and for which share of the time.

    None: nothing did, or there is nothing to compare with. Counters that began anew say nothing.
    """
    if before is None or seconds <= 0:
        return None
    grown = [
        (why, (now.throttled_seconds[why] - before.throttled_seconds[why]) / seconds)
        for why in _THROTTLES
        if why in now.throttled_seconds and why in before.throttled_seconds
    ]
    most = max(grown, key=lambda pair: pair[1], default=("", 0.0))
    return (most[0], min(1.0, most[1])) if most[1] > 0 else None
