"""Simulated hosts as their agents' exporters tell of them: the demo fleet's own rows through the real /metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import generate_latest

from agent.config import DcgmNames
from agent.metrics.families import Scraped, registry
from agent.metrics.snapshot import Snapshot
from agent.sampling.sampler import Stamped
from agent.source import Row, Supported
from agent.wire.units import MINUTE_MS
from simulator.batches import host_blocks, inventory, scheduler_batch
from simulator.columns import of_wire
from simulator.fleet import Fleet
from simulator.site import Host
from tests.collector.prometheus.servers import Exporter

BEFORE_END, STEP = 60 * MINUTE_MS, 5 * MINUTE_MS  # hosts tell of the last hour; an agent's rows come every five minutes
PEER: Row = {"peer": "s09", "transport": "tcp", "receive_bytes": 10**9, "transmit_bytes": 2 * 10**9, "retransmits": 3}
READ: Row = {"read_bytes": 10**9, "written_bytes": 10**6}
# What the simulated agent does not tell of itself.
AGENT: Row = {"gpus_expected": 8, "gpus_seen": 8, "sources_failing": 0, "paused": False}


class SimulatedHost(Exporter):
    """One host of a simulated fleet: each scrape finds it five simulated minutes later, until its hour is over."""

    def __init__(self, fleet: Fleet, host: Host, dcgm: DcgmNames = "legacy") -> None:
        super().__init__()
        self._fleet, self._host = fleet, host
        (*_, last) = fleet.site.chunks()
        self._blocks = host_blocks(fleet, host, last)
        self._at = fleet.site.span - BEFORE_END
        self._snapshot = Snapshot(lambda: 0)
        self._registry = registry(
            self._snapshot, Scraped(supported=self._supported, dcgm=dcgm, version="1.2.3", node=host.name)
        )
        self._snapshot.observe([self._stamped({"inventory": inventory(fleet.site, host), "allocations": self._held()})])

    def answered(self) -> str:
        """Return the page of the next minutes."""
        self.scrapes += 1
        if self._at + STEP <= self._fleet.site.span:
            self._snapshot.observe([self._stamped(self._tables())])
            self._at += STEP
        return generate_latest(self._registry).decode()

    def _tables(self) -> dict[str, list[Row]]:
        told: dict[str, list[Row]] = {}
        for table, block in self._blocks:
            part = block.between(self._at, self._at + STEP)
            if len(part.starts):
                told.setdefault(table, []).extend(rows(of_wire(self._fleet.site, table, self._host.name, part)))
        told["process_samples"] = [{**row, **READ} for row in told.get("process_samples", ())]
        told["agent_samples"] = [{**row, **AGENT} for row in told["agent_samples"]]
        run_ids = {row["run_id"] for row in self._held()}
        told["flow_samples"] = [{"run_id": run_id, **PEER} for run_id in run_ids]
        return told

    def _held(self) -> list[Row]:
        """Return the allocations that are open when the host begins to tell."""
        begins = self._fleet.site.microseconds(self._fleet.site.span - BEFORE_END)
        every = rows(scheduler_batch(self._fleet).tables["allocations"])
        return [
            {**row, "ended_at": None}
            for row in every
            if row["node"] == self._host.name
            and isinstance(started := row.get("started_at"), int)
            and started <= begins
            and (not isinstance(ended := row.get("ended_at"), int) or ended > begins)
        ]

    def _supported(self) -> Sequence[Supported]:
        has = self._host.sku.has_gpm
        reason = "" if has else "GPM needs Hopper or newer"
        gpus = [self._fleet.site.gpu_uuid(self._host, number) for number in range(self._host.gpus)]
        return [Supported(uuid, "activity", ok=has, reason=reason) for uuid in gpus]

    def _stamped(self, tables: Mapping[str, Sequence[Row]]) -> Stamped:
        at = self._fleet.site.microseconds(self._at)
        told = {name: [dict(row) for row in listed] for name, listed in tables.items()}
        return Stamped("all", STEP * 1000, at, at + STEP * 1000, told)


def rows(columns: Mapping[str, Any]) -> list[Row]:
    """Return columns of a batch as rows; what is masked is None."""
    listed = {name: list(values.tolist() if hasattr(values, "tolist") else values) for name, values in columns.items()}
    return [dict(zip(listed, row, strict=True)) for row in zip(*listed.values(), strict=True)]
