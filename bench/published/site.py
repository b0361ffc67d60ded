"""A run's story written down as the contract's tables, a Parquet file each, as its agents would have sent them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from agent.wire.tables import TABLES
from bench.published import sensors
from bench.published.boards import Board
from bench.published.lanes import Floats, Lane
from bench.published.setting import HOUR, PORTS, Setting, Story

BASE = 1_794_873_600  # 2026-11-17T00:00:00Z, a Tuesday
US = 10**6
_LOST_ROWS = 0.003  # of the intervals an agent misses
_TYPES = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}


def microseconds(seconds: Any) -> Any:  # noqa: ANN401 - a number or an array of them
    """Return a moment of the day as the wire has it."""
    return np.round((BASE + np.asarray(seconds, float)) * US).astype(np.int64)


def _node(setting: Setting, host: int) -> str:
    return f"n{setting.number:03d}{host:02d}"


class Site:
    """Rows of all runs of a seed, kept by table until they are written."""

    def __init__(self) -> None:
        self.parts: dict[str, list[pa.Table]] = {}

    def add(self, setting: Setting, story: Story, run_id: str) -> None:
        """Add a run with its hosts."""
        span = np.ceil((story.end + 120) / HOUR) * HOUR
        begin = story.start // HOUR * HOUR
        edges = np.arange(begin, span + 0.5 * setting.interval, setting.interval)
        held = np.flatnonzero((edges[:-1] >= story.start) & (edges[1:] <= story.end))
        between = edges[held[0] : held[-1] + 2]
        for h in range(setting.hosts):
            node = _node(setting, h)
            uuids = [f"GPU-{setting.number:04d}-{h:02d}-{i}" for i in range(setting.gpus_per_host)]
            lanes = story.lanes[h * setting.gpus_per_host : (h + 1) * setting.gpus_per_host]
            board = setting.board_of(h)
            limits = [story.limits.get(h * setting.gpus_per_host + i, board.limit_watts) for i in range(len(lanes))]
            self._fixed(setting, board, node, dict(zip(uuids, limits, strict=True)), setting.racks[h], (begin, span))
            for i, (lane, limit) in enumerate(zip(lanes, limits, strict=True)):
                rank = h * setting.gpus_per_host + i
                self._allocation(story, node, uuids[i], run_id, rank, setting.gpus)
                told = sensors.gpu(setting, board, lane, edges, limit)
                self._samples("gpu_samples", setting, edges, told, node=node, gpu_uuid=uuids[i])
                if setting.processes:
                    told = sensors.process(setting, lane, story.disk, between)
                    if story.strangers:
                        told["sm_utilization_ratio"] *= 0.33
                        self._stranger(setting, story, lane, between, node, uuids[i])
                    about = {"node": node, "run_id": run_id, "gpu_uuid": uuids[i], "pid": 4000 + i}
                    self._samples("process_samples", setting, between, told, **about)
            self._host(setting, story, node, lanes, edges)
            if setting.cgroup:
                told = sensors.cgroup(setting, lanes, story.disk, story.quota_cores, between)
                self._samples("run_samples", setting, between, told, node=node, run_id=run_id)
            if setting.hosts > 1 and setting.flows:
                self._flows(setting, lanes, node, between, run_id, h)
            if h == 0:
                self._run_itself(setting, story, node, between, run_id)

    def write(self, folder: Path) -> list[Path]:
        """Write a Parquet file for each table; return them."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, parts in self.parts.items():
            paths.append(folder / f"{name}.parquet")
            pq.write_table(pa.concat_tables(parts, promote_options="default"), paths[-1], compression="zstd")
        return paths

    def _host(self, setting: Setting, story: Story, node: str, lanes: Sequence[Lane], edges: Floats) -> None:
        self._samples("host_samples", setting, edges, sensors.host(setting, lanes, edges), node=node)
        at = story.disk
        if at.kind != "object":
            told = sensors.disk(setting, lanes, at, edges)
            self._samples("disk_samples", setting, edges, told, node=node, device=at.device, mount_kind=at.kind)
        if at.remote:
            quiet = dict.fromkeys(
                ("read_bytes", "written_bytes", "reads", "writes", "busy_ratio"), np.zeros(len(edges) - 1)
            )
            self._samples("disk_samples", setting, edges, quiet, node=node, device="nvme0n1", mount_kind="block")
        ours = (["in", "read"], ["out", "write"]) if at.remote and not at.rdma else (["in"], ["out"])
        self._link(setting, lanes, node, ("eth0", "ethernet", 3.1e9), ours, 1.0, edges)
        if setting.hosts > 1 or at.rdma:
            ports, speed = PORTS[setting.fabric]
            stored = (["read"], ["write"]) if at.rdma else ([], [])
            for port in range(ports):
                device = f"mlx5_{port}" if setting.fabric != "ethernet" else "eth1"
                about = (device, setting.fabric, speed)
                ways = (["peers", *stored[0]], ["peers", *stored[1]])
                self._link(setting, lanes, node, about, ways, 1 / ports, edges)

    def _link(
        self,
        setting: Setting,
        lanes: Sequence[Lane],
        node: str,
        about: tuple[str, str, float],
        ways: tuple[Sequence[str], Sequence[str]],
        share: float,
        edges: Floats,
    ) -> None:
        device, link_kind, speed = about
        told = sensors.link(setting, lanes, ways, share, edges)
        told["speed_bytes_per_second"] = np.full(len(edges) - 1, speed)
        self._samples("network_samples", setting, edges, told, node=node, device=device, link_kind=link_kind)

    def _flows(self, setting: Setting, lanes: Sequence[Lane], node: str, edges: Floats, run_id: str, h: int) -> None:
        """Add what a host sends to whom: counted of TCP round a ring, of RDMA the ports' bytes in equal shares."""
        told = sensors.link(setting, lanes, (["peers"], ["peers"]), 1.0, edges)
        nodes = [_node(setting, other) for other in range(setting.hosts)]
        before, after = nodes[h - 1], nodes[(h + 1) % setting.hosts]
        if setting.fabric != "ethernet":
            shares = dict.fromkeys(nodes[:h] + nodes[h + 1 :], 1 / (setting.hosts - 1))
            ways = {peer: (share, share) for peer, share in shares.items()}
        elif before == after:
            ways = {after: (1.0, 1.0)}
        else:
            ways = {before: (1.0, 0.0), after: (0.0, 1.0)}
        transport = "tcp" if setting.fabric == "ethernet" else "rdma_estimate"
        for peer, (receive, transmit) in ways.items():
            moved = {
                "receive_bytes": np.round(told["receive_bytes"] * receive),
                "transmit_bytes": np.round(told["transmit_bytes"] * transmit),
            }
            about = {"node": node, "run_id": run_id, "peer": peer, "transport": transport}
            self._samples("flow_samples", setting, edges, moved, **about)

    def _stranger(self, setting: Setting, story: Story, lane: Lane, edges: Floats, node: str, uuid: str) -> None:
        """Add another's process on the same GPU, which no scheduler knows."""
        told = sensors.process(setting, lane, story.disk, edges)
        told["sm_utilization_ratio"] = 0.62 * told["sm_utilization_ratio"]
        told["memory_used_bytes"] = np.full(len(edges) - 1, 4e9)
        about = {"node": node, "run_id": f"process/{node}/777.{uuid[-1]}", "gpu_uuid": uuid, "pid": 777}
        self._samples("process_samples", setting, edges, told, **about)

    def _run_itself(self, setting: Setting, story: Story, node: str, edges: Floats, run_id: str) -> None:
        count = len(edges) - 1
        if story.service:
            lane, step = story.lanes[0], np.diff(edges)
            told = {
                "requests": np.round(lane.mean("requests", edges) * step),
                "tokens_in": np.round(lane.mean("requests", edges) * step * 700),
                "tokens_out": np.round(lane.mean("tokens", edges) * step),
                "running": np.round(lane.mean("running", edges)),
                "waiting": np.round(lane.mean("queued", edges)),
                "kv_cache_ratio": np.clip(lane.mean("kv", edges), 0, 1),
                "first_token_seconds_p50": 0.2 + lane.mean("late", edges),
                "first_token_seconds_p99": 0.7 + 2 * lane.mean("late", edges),
            }
            self._samples("service_samples", setting, edges, told, node=node, run_id=run_id, engine="vllm", model="m7")
        elif setting.tells and not story.checkpoints:
            told = sensors.progress(story.lanes[0], edges)
            self._samples("progress", setting, edges, told, node=node, run_id=run_id)
        for moment in story.checkpoints:
            at = min(int(np.searchsorted(edges, moment)), count)
            pair = edges[at - 1 : at + 1]
            self._samples("progress", setting, pair, {}, node=node, run_id=run_id, checkpoint=f"step-{int(moment)}")

    def _allocation(self, story: Story, node: str, uuid: str, run_id: str, rank: int, gpus: int) -> None:
        self._row(
            "allocations",
            node=node,
            submitted_at=int(microseconds(story.start - 20)),
            started_at=int(microseconds(story.start)),
            ended_at=int(microseconds(story.end)),
            run_id=run_id,
            attempt=0,
            gpu_uuid=uuid,
            requested_gpus=gpus,
            rank=rank,
            scheduler=story.scheduler,
            user=f"u{int(run_id[-2:]) % 17}",
            name=f"{story.name}-{run_id[-4:]}",
            queue=story.queue,
            exit_status=story.status,
        )

    def _fixed(
        self,
        setting: Setting,
        board: Board,
        node: str,
        limits: dict[str, float],
        rack: str | None,
        hours: tuple[float, float],
    ) -> None:
        """Add what does not change: inventory, ownership, the scheduler's word that the host is up."""
        zero, until = (int(microseconds(hour)) for hour in hours)
        where = {"node": node, "started_at": zero, "ended_at": zero + US, "rack": rack, "node_group": "general"}
        where |= {"topology_source": "table"} if rack else {}
        memory = int(setting.memory_gib * 2**30)
        self._row("inventory", **where, cpu_cores=setting.cores, host_memory_bytes=memory, local_nvme_bytes=2 * 10**12)
        for i, (uuid, limit) in enumerate(limits.items()):
            self._row(
                "inventory",
                **where,
                gpu_uuid=uuid,
                gpu_index=i,
                sku=board.sku,
                memory_bytes=int(board.memory_gib * 2**30),
                power_limit_watts=limit,
                sm_clock_max_hertz=board.max_mhz * 1e6,
                pcie_generation=board.pcie_generation,
                pcie_generation_max=board.pcie_generation,
                pcie_width=16,
                pcie_width_max=16,
                nvlink_peers=len(limits) - 1 if board.nvlink else 0,
                driver_version="570.86.15",
            )
            owned = {"node": node, "gpu_uuid": uuid, "owned_from": zero, "owned_until": until, "sku": board.sku}
            self._row("ownership", **owned, purchase_option="owned", source="fleet file")
        self._row("node_states", node=node, started_at=zero, ended_at=until, state="up")

    def _samples(self, table: str, setting: Setting, edges: Floats, told: sensors.Columns, **about: object) -> None:
        moments = microseconds(edges)
        keep = setting.rng.random(len(edges) - 1) > _LOST_ROWS
        columns = {"started_at": pa.array(moments[:-1][keep]), "ended_at": pa.array(moments[1:][keep])}
        for name, value in about.items():
            columns[name] = pa.array([value] * int(keep.sum()), _TYPES[TABLES[table].column(name).type])
        for name, values in told.items():
            kept = values[keep]
            missing = np.isnan(kept)
            wanted = _TYPES[TABLES[table].column(name).type]
            columns[name] = pa.array(np.where(missing, 0, kept), mask=missing).cast(wanted)
        self.parts.setdefault(table, []).append(pa.table(columns))

    def _row(self, table: str, **row: object) -> None:
        types = {name: _TYPES[TABLES[table].column(name).type] for name in row}
        self.parts.setdefault(table, []).append(
            pa.table({name: pa.array([value], types[name]) for name, value in row.items()})
        )
