"""A fleet in small: collectors that seal into one lake, a balancer before them, agents that speak."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from collector.store.database import Store
from collector.store.lake import S3, LakeSettings
from tests.fleet.agents import GPUS, STEP, Agent
from tests.fleet.balancer import Balancer
from tests.fleet.collectors import Collector
from tests.fleet.postgres import Postgres
from tests.fleet.s3 import KEY_ID, REGION, SECRET, S3Server
from tests.waiting import until

SETTLING_SECONDS = 300.0  # a bound, never waited out: the machine is shared


class Fleet:
    """Its parts are there to be killed; `faults` says what came of it. `stores` are the collectors' folders."""

    def __init__(
        self,
        directory: Path,
        postgres: Postgres,
        s3: S3Server,
        collectors: int,
        agents: int,
        every_seconds: float,
        settings: Mapping[str, str] | None = None,
        *,
        stores: Sequence[Path] = (),
    ) -> None:
        self.lake = LakeSettings(
            f"postgres:{postgres.database()}", s3.prefix(), S3(s3.endpoint, REGION, KEY_ID, SECRET)
        )
        flags = {
            "lake": self.lake.catalogue,
            "data": self.lake.data,
            "s3_endpoint": s3.endpoint,
            "s3_region": REGION,
            "s3_key_id": KEY_ID,
            "seal_seconds": "1",
            **(settings or {}),
        }
        environment = {"GPULEDGER_COLLECTOR_S3_SECRET": SECRET}
        self.collectors = [
            Collector(folder / f"collector-{number}.duckdb", flags, environment=environment, public=True)
            for number, folder in enumerate(stores or [directory] * collectors)
        ]
        self._balancer = Balancer([one.port for one in self.collectors])
        self._directory = directory
        self._agents_wanted = agents
        self._every_seconds = every_seconds
        self.agents: list[Agent] = []

    def __enter__(self) -> "Fleet":
        try:
            for collector in self.collectors:  # one after another, or they would make the lake's tables at once
                collector.start()
            self._balancer.start()
            self._speak()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything, whatever state it is in."""
        for agent in self.agents:
            agent.close()
        self._balancer.close()
        for collector in self.collectors:
            collector.kill()

    def _speak(self) -> None:
        began = time.time_ns() // 1000 // STEP * STEP - 10_000 * STEP
        for number in range(self._agents_wanted):
            name = f"host-{number:03}"
            agent = Agent(name, self._directory / "spools", self._balancer.url, began, self._every_seconds)
            self.agents.append(agent)
            agent.start()

    def reader(self) -> Store:
        """Open the lake as a process anywhere does."""
        return Store.open(None, lake=self.lake, read_only=True)

    def kill_and_restart(self, victim: Collector, *, after: int = 3) -> None:
        """Kill a collector while batches come, and start it again."""
        self.wait_for_more(after)
        victim.kill()
        victim.start()

    def wait_for_more(self, batches: int) -> None:
        """Return when so many more batches were acknowledged."""
        before = self.acknowledged
        until(lambda: self.acknowledged >= before + batches, f"{batches} more batches are taken", SETTLING_SECONDS)

    def wait_for_all(self) -> None:
        """Return when every agent has got something through, and has nothing of before that still waits."""
        said = self.said()
        until(lambda: self.delivered(said), "every agent gets something through", SETTLING_SECONDS)

    def sealed(self, numbers: Mapping[Agent, int]) -> bool:
        """Whether every agent knows that this batch of its is sealed."""
        return all(agent.spool.sealed_through >= number for agent, number in numbers.items())

    def delivered(self, numbers: Mapping[Agent, int]) -> bool:
        """Whether every agent was answered for this batch, and has nothing older that waits."""
        return all(agent.has_delivered(number) for agent, number in numbers.items())

    def said(self) -> dict[Agent, int]:
        """Return the number of each agent's next batch."""
        return {agent: agent.said for agent in self.agents}

    @property
    def acknowledged(self) -> int:
        """Batches that agents were answered for."""
        return sum(len(agent.spool.acknowledged) for agent in self.agents)

    @property
    def unsealed(self) -> int:
        """Batches of these that agents do not know to be sealed."""
        return sum(max(agent.spool.acknowledged, default=-1) - agent.spool.sealed_through for agent in self.agents)

    @property
    def new_streams(self) -> int:
        """How often an agent had to begin a new stream."""
        return sum(agent.sender.counts.streams_begun for agent in self.agents)

    def settle(self) -> None:
        """Let the agents fall silent and deliver what they said, then the collectors seal it and end."""
        for agent in self.agents:
            agent.fall_silent()
        until(lambda: all(agent.has_delivered_all for agent in self.agents), "all is delivered", SETTLING_SECONDS)
        for collector in self.collectors:
            if collector.is_alive:
                collector.stop()

    def sealers(self) -> list[int]:
        """Return the numbers of the collectors that have sealed batches."""
        with self.reader() as store, store.session() as session:
            rows = session.rows("SELECT DISTINCT batch & 255 FROM lake.main.receipts ORDER BY 1")
        return [number for (number,) in rows]

    def faults(self) -> list[str]:
        """Return what is wrong in the lake: samples that are there twice, and those of safe batches that are not.

        Safe is what an agent was told is sealed, and what it was acknowledged by a collector that came back.
        """
        with self.reader() as store, store.session() as session:
            rows = session.rows(
                "SELECT node, started_at, gpu_uuid, count(*), min(memory_used_bytes) FROM gpu_samples GROUP BY ALL"
            )
        there = {(node, start, gpu): (count, value) for node, start, gpu, count, value in rows}
        twice = [f"{key} is there {count} times" for key, (count, _) in there.items() if count > 1]
        return twice + [fault for agent in self.agents for fault in _faults(agent, there)]


def _faults(agent: Agent, there: Mapping[tuple[str, int, str], tuple[int, int]]) -> list[str]:
    found = []
    for number in sorted(agent.spool.safe):
        for gpu in range(GPUS):
            _, value = there.get((agent.name, agent.start_of(number), f"{agent.name}-{gpu}"), (0, None))
            if value != number * GPUS + gpu:
                found.append(f"{agent.name} was told that batch {number} is safe, and GPU {gpu} has {value}")
    return found


def half_batches(store: Store) -> Sequence[tuple[object, ...]]:
    """Return the batches of which one look at the lake shows a part: rows without receipt, or other than it says."""
    counted = "SELECT batch FROM gpu_samples UNION ALL SELECT batch FROM host_samples"
    with store.session() as session:
        return session.rows(
            f"SELECT batch, rows, row_count FROM (SELECT batch, count(*) AS rows FROM ({counted}) GROUP BY batch) "
            "FULL JOIN lake.main.receipts USING (batch) WHERE rows IS DISTINCT FROM row_count"
        )
