"""A fleet that is well, minute by minute, and what the rules say of it; tests change one thing of it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from analyzer.findings.health import gpus as health_gpus
from analyzer.findings.health import hosts as health_hosts
from analyzer.findings.health import queues, runs
from analyzer.findings.health.all_notices import RULES, PeriodNotices, notices_in
from analyzer.findings.health.notice import Notice, Rule
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

NODES = ("n1", "n2", "n3", "n4")
UNTIL = MONDAY + 6 * HOUR
GB = 10**9
TRAINING = "slurm/alpha/1"
WELL: dict[str, Any] = {
    "tensor_active_ratio": 0.4,
    "dram_active_ratio": 0.5,
    "fp32_active_ratio": 0.2,
    "fp64_active_ratio": 0.0,
    "memory_used_bytes": 40 * GB,
    "pcie_replay_events": 0,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "xid_events": 0,
    "ecc_corrected_events": 0,
    "ecc_uncorrected_events": 0,
    "remapped_rows_corrected": 0,
    "row_remap_pending": False,
    "recovery_action": "none",
}
Values = dict[str, Any]


def gpus(node: str) -> list[str]:
    """Return the GPUs of a host."""
    return [f"{node}-a", f"{node}-b"]


def hosts(
    but: Mapping[str, Values] | None = None,
    nodes: Iterable[str] = NODES,
    until: int = UNTIL,
    into: Fleet | None = None,
) -> Fleet:
    """Return hosts of two GPUs that all work; `but` says what is otherwise of a GPU, a host or one of its tables."""
    fleet, otherwise = into or Fleet(), but or {}
    found, agents, ports = [], [], []
    for node in nodes:
        fleet.own(node, gpus(node))
        host = {"node": node, "started_at": MONDAY, "ended_at": MONDAY + MINUTE, "node_group": "h100"}
        found.append(host | {"driver_version": "570.86.15", "cpu_cores": 64} | otherwise.get(f"{node} inventory", {}))
        for gpu in gpus(node):
            found.append(host | {"gpu_uuid": gpu, "sku": "H100-80GB", "memory_bytes": 80 * GB})
            fleet.sample(node, gpu, MONDAY, until, **WELL | otherwise.get(gpu, {}))
        for start in range(MONDAY, until, 5 * MINUTE):
            part = {"node": node, "started_at": start, "ended_at": start + 5 * MINUTE}
            told = {"gaps": 0, "dropped_batches": 0, "dropped_rows": 0, "clock_offset_seconds": 0.01}
            agents.append(part | told | otherwise.get(f"{node} agent", {}))
            port = {"device": "rdma0", "link_kind": "infiniband", "speed_bytes_per_second": 50e9, "errors": 0}
            ports.append(part | port | otherwise.get(f"{node} port", {}))
    fleet.add("inventory", found)
    fleet.add("agent_samples", agents)
    fleet.add("network_samples", ports)
    return fleet


def well(but: Mapping[str, Values] | None = None, until: int = UNTIL, into: Fleet | None = None) -> Fleet:
    """Return a fleet on which one training run holds everything."""
    fleet = hosts(but, until=until, into=into)
    train(fleet, [gpu for node in NODES for gpu in gpus(node)], until=until)
    for node in NODES:
        compute(fleet, TRAINING, node, cores=4.0, memory_used_bytes=20 * GB)
    return fleet


def train(fleet: Fleet, held: Iterable[str], run: str = TRAINING, name: str = "llama-pretrain", **more: Any) -> None:
    """Let a run hold GPUs from Monday on."""
    until = more.pop("until", None)
    more = {"submitted_at": MONDAY, "requested_gpus": 8, "name": name} | more
    for gpu in held:
        fleet.hold(run, gpu.split("-")[0], [gpu], MONDAY, until, **more)


def compute(fleet: Fleet, run: str, node: str, cores: float, hours: int = 3, **more: Any) -> None:
    """Let a run's processes compute for hours."""
    fleet.add(
        "run_samples",
        [
            {"node": node, "run_id": run, "started_at": at, "ended_at": at + MINUTE, "cpu_seconds": 60 * cores} | more
            for at in range(MONDAY, MONDAY + hours * HOUR, MINUTE)
        ],
    )


# Which rules speak under a name that begins so; all are asked of any other.
_RULES: Mapping[str, tuple[Rule, ...]] = {
    "fleet/cpu_only": (runs.CPU_ONLY,),
    "fleet/drivers": (health_hosts.find_drivers,),
    "fleet/ecc": (health_gpus.find_memory_errors,),
    "fleet/foreign_processes": (health_gpus.find_foreign_processes,),
    "fleet/fragmentation": (queues.find_fragmentation,),
    "fleet/links": (health_hosts.find_links,),
    "fleet/mixed": (queues.find_mixed,),
    "fleet/silent_agents": (health_hosts.find_silent_agents,),
    "fleet/zombie_memory": (health_gpus.UNHELD_MEMORY,),
    "run/hbm_headroom": (runs.find_full_memory,),
    "run/mixed_precision": (runs.find_idle_tensor_cores,),
    "run/packed_stages": (runs.find_packed_stages,),
    "run/too_large": (runs.find_too_large,),
}


def noticed(fleet: Fleet, rule: str = "", until: int = UNTIL, start: int = MONDAY) -> list[Notice]:
    """Return what rules with names that begin so notice of an analysed fleet."""
    return [notice for notice in _said(fleet, rule, until, start).notices if notice.rule.startswith(rule)]


def own_notices(fleet: Fleet, rule: str, until: int = UNTIL) -> list[Notice]:
    """Return what a rule notices of one of the fleets of an analysed store, by the names that it has in its test."""
    with fleet.store.session() as session:
        found = notices_in(session, MONDAY, until, _RULES[rule]).notices
    end = fleet.names_end
    return [
        replace(
            each,
            subject=each.subject.removesuffix(end),
            node=each.node and each.node.removesuffix(end),
            gpu_uuid=each.gpu_uuid and each.gpu_uuid.removesuffix(end),
            run_ids=tuple(run.removesuffix(end) for run in each.run_ids),
            sentence=each.sentence.replace(end, ""),
        )
        for each in found
        if any(name.endswith(end) for name in (*each.run_ids, each.node or "", each.gpu_uuid or ""))
    ]


def not_judged(fleet: Fleet, rule: str, until: int = UNTIL) -> list[str]:
    """Return the signals that a rule lacked."""
    said = [one for one in _said(fleet, rule, until, MONDAY).unjudged if one.rule == rule]
    assert {(one.subject, one.hour_us) for one in said} <= {("fleet", MONDAY // DAY * DAY)}
    return [one.missing for one in said]


def _said(fleet: Fleet, rule: str, until: int, start: int) -> PeriodNotices:
    fleet.analyze(now=until)
    asked = _RULES.get("/".join(rule.split("/")[:2]), RULES)
    with fleet.store.session() as session:
        return notices_in(session, start, until, asked)
