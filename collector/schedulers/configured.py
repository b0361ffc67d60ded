"""Which schedulers this collector asks, from its settings."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collector.config import CollectorConfig
    from collector.pipeline.writer import Writer
    from collector.schedulers.kubernetes.api import Server
    from collector.schedulers.poller import Poller
    from collector.store.database import Store


def configured(config: "CollectorConfig", store: "Store", writer: "Writer") -> "list[Poller]":
    """Return a poller for each scheduler that the settings name; none is started."""
    found = [_slurm(config, store, writer)] if config.slurm else []
    return [*found, _kubernetes(config, store, writer)] if config.kubernetes else found


def _slurm(config: "CollectorConfig", store: "Store", writer: "Writer") -> "Poller":
    from collector.schedulers.poller import Poller
    from collector.schedulers.slurm.reader import Commands, Form, SlurmReader
    from collector.schedulers.slurm.source import open_slurm

    directory = Path(config.slurm_commands) if config.slurm_commands else None
    commands = Commands(directory, config.slurm_timeout_seconds, config.slurm_bytes)
    reader = SlurmReader(commands, cast("Form", config.slurm_format))
    opened = open_slurm(config.slurm, reader, config.slurm_seconds)
    return Poller(f"slurm/{config.slurm}", opened, store, writer, config.slurm_seconds)


def _kubernetes(config: "CollectorConfig", store: "Store", writer: "Writer") -> "Poller":
    from collector.schedulers.kubernetes.api import Api
    from collector.schedulers.kubernetes.runs import Labels
    from collector.schedulers.kubernetes.source import LabelMeanings, open_kubernetes
    from collector.schedulers.poller import Poller

    labels = Labels(config.kubernetes_user_labels, config.kubernetes_project_labels, config.kubernetes_labels)
    reading = LabelMeanings(labels, config.kubernetes_rack_labels, config.kubernetes_block_labels)
    api = Api(_api_server(config))
    opened = open_kubernetes(config.kubernetes, api, reading, config.kubernetes_seconds)
    return Poller(f"kubernetes/{config.kubernetes}", opened, store, writer, config.kubernetes_seconds)


def _api_server(config: "CollectorConfig") -> "Server":
    """Return the API server that the settings name, else that of the cluster in which the collector runs.

    Raises:
        ConfigError: neither is known.
    """
    from collector.errors import ConfigError
    from collector.schedulers.kubernetes.api import CLUSTER_FILES, Server

    timeout, most = config.kubernetes_timeout_seconds, config.kubernetes_bytes
    token, ca = (Path(name) if name else None for name in (config.kubernetes_token, config.kubernetes_ca))
    if config.kubernetes_api:
        return Server(config.kubernetes_api, token, ca, timeout, most)
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError(
            "collector.kubernetes is set, and this is not a pod of a cluster; set collector.kubernetes_api, as to the "
            "address of a `kubectl proxy`"
        )
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Server(url, token or CLUSTER_FILES / "token", ca or CLUSTER_FILES / "ca.crt", timeout, most)
