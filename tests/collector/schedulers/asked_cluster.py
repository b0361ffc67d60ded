"""A cluster of our own making, a store, and a source that is asked by hand."""

from typing import Any

from collector.schedulers.kubernetes.api import Api, Server
from collector.schedulers.kubernetes.source import LabelMeanings, Labels, open_kubernetes
from collector.schedulers.poller import PollBatches
from tests.collector.schedulers.api_server import Cluster
from tests.collector.schedulers.asked import Asked
from tests.collector.schedulers.kubernetes_things import T

READING = LabelMeanings(Labels(user=("gpuledger/user",), project=("gpuledger/project",), further=("team",)))


class AskedCluster(Asked):
    """What an API server says is landed in a store, and read back."""

    def __init__(self, cluster: Cluster, server: Server) -> None:
        super().__init__(T)
        self.cluster = cluster
        self.api = Api(server)
        self.restart()

    def restart(self) -> None:
        """Forget all but the store, as a collector does that starts anew."""
        self.source = open_kubernetes("prod", self.api, READING, 60.0)(self.session, self.now)
        self.batch_commit = PollBatches("kubernetes/prod", self.writer)

    def allocations(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return the last word on each allocation."""
        return self.session.rows(
            f"""
            SELECT {", ".join(columns)} FROM allocations
            QUALIFY row_number() OVER (PARTITION BY run_id, member, node, started_at ORDER BY batch DESC) = 1
            ORDER BY run_id, member, started_at NULLS FIRST
            """
        )

    def close(self) -> None:
        """End the connection, the writer and the store."""
        self.api.close()
        super().close()
