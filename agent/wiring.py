"""Which sources this host has. The only place that knows them all; each is imported when it is needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.config import AgentConfig
from agent.source import Source
from agent.topology import Place


@dataclass(frozen=True, slots=True)
class Eyes:
    """The sources of a host, GPUs first, since their readings must lie closest to the beat."""

    sources: list[Source]
    no_gpu: str  # why there are none, in words; empty where there are
    close: Callable[[], None]


def open_eyes(
    config: AgentConfig,
    now: Callable[[], int],
    watched: Callable[[], Sequence[int]] = tuple,
    own_run: str | None = None,
) -> Eyes:
    """Open every source of this host.

    `watched` names processes that are read although they may hold no GPU. What declares `own_run` is of that run,
    whatever scheduler it lives under: the recording of one run knows it by one name.

    Raises:
        DriverChangedError: the GPU library and the loaded driver do not fit.
        ConfigError: a topology file cannot be read.
    """
    from agent.attribution.declared import VARIABLE
    from agent.attribution.evidence import Process
    from agent.attribution.run import Attribution, attribute
    from agent.attribution.run import Place as Here
    from agent.disk import DiskSource
    from agent.host import HostSource
    from agent.inventory import HostInventory
    from agent.network import NetworkSource
    from agent.nvml import GpuProcess, open_nvml
    from agent.processes.source import ProcessSource

    gpus, no_gpu = open_nvml(config.sys)
    here = Here(config.node_name, config.cluster)

    def holders() -> Sequence[GpuProcess]:
        return gpus.processes() if gpus is not None else []

    def run_of(process: Process) -> Attribution:
        if own_run is not None and (process.environment or {}).get(VARIABLE) == own_run:
            return Attribution(own_run, "declared", owner=process.owner)
        return attribute(process, here)

    sources: list[Source] = [
        *([gpus] if gpus is not None else []),
        HostSource(config.proc),
        DiskSource(config.proc),
        NetworkSource(config.proc, config.sys),
        ProcessSource(holders, run_of, now, watched, config.proc, config.sys, config.process_seconds),
        HostInventory(config, _place(config)),
    ]
    return Eyes(sources, no_gpu, gpus.close if gpus is not None else _nothing)


def _place(config: AgentConfig) -> Callable[[], Place]:
    from agent.topology import read_topology

    topology = read_topology(
        config.rack or None, config.block or None, config.zone or None, config.topology_table, config.topology_slurm
    )
    return lambda: topology.place(config.node_name)


def _nothing() -> None:
    """There is nothing to close."""
