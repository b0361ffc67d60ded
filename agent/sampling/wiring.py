"""Which sources this host has. The only place that knows them all; each is imported when it is needed."""

import os
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agent.attribution.evidence import VARIABLE, Process
from agent.attribution.run import Attribution, HostIdentity, attribute
from agent.child import installed_version
from agent.config import AgentConfig
from agent.sampling.stamp import Identity, Stamper
from agent.source import Reading, Row, Source
from agent.sources.topology import NodePlace, read_topology

if TYPE_CHECKING:
    from agent.attribution.devices import SchedulerNumbers
    from agent.attribution.providers import Condition, HolderProvider, HolderProviders
    from agent.files import StateFile
    from agent.gpu.source import GpuSource
    from agent.sources.disk import DiskSource
    from agent.sources.flows import FlowSource
    from agent.sources.network import NetworkSource
    from agent.sources.processes import ProcessSource
    from agent.sources.progress import ProgressSource
    from agent.sources.services import Followed, ServiceSource

_RunOf = Callable[[Process], Attribution]
_INVENTORY_SECONDS = 600.0  # between two looks at what this host is


@dataclass(frozen=True, slots=True)
class HostSources:
    """The sources of a host, GPUs first, since their readings must lie closest to the beat; and what they know of
    themselves. Nothing here asks the hardware: it may be called from any thread.
    """

    sources: list[Source]
    gpus: "GpuSource"  # among the sources only where there is a GPU, or may yet be one
    close: Callable[[], None]
    coverage: Callable[[], Sequence[str]] = tuple  # what the sources know that they do not see, in words
    attribution_age_seconds: Callable[[], float | None] = lambda: None  # of the oldest map of holders in use
    hidden_holders: Callable[[], int] = lambda: 0  # processes on GPUs that procfs does not show
    providers: Callable[[], Sequence["Condition"]] = tuple  # who else is asked what holds a GPU, and how it answers
    services: Sequence["Followed"] = ()  # each with how its last reading went


@dataclass(frozen=True, slots=True)
class _Host:
    """What every part is opened with: the settings, where this is, and whose run a process is."""

    config: AgentConfig
    here: HostIdentity
    run_of: _RunOf
    lasting: bool  # the daemon: it keeps what must outlive a restart, and is there to be asked
    alone: bool  # one run is watched, and nobody else is asked for its sake


def open_host_sources(
    config: AgentConfig,
    now: Callable[[], int],
    watched: Callable[[], Sequence[int]] = tuple,
    own_run: str | None = None,
    *,
    lasting: bool = False,
) -> HostSources:
    """Open every source of this host.

    `watched` names processes that are read although they may hold no GPU; `lasting` is whether what must outlive a
    restart is kept in `config.state`, as only the daemon may. What declares `own_run` is of that run,
    whatever scheduler it lives under: the recording of one run knows it by one name.

    Raises:
        DriverChangedError: the GPU library and the loaded driver do not fit.
        ConfigError: a topology file cannot be read.
    """
    from agent.attribution.devices import SchedulerNumbers
    from agent.files import StateFile
    from agent.sources.host import HostSource

    here = HostIdentity(config.node_name, config.cluster)
    host = _Host(config, here, _run_of(here, own_run), lasting, alone=own_run is not None)
    feeds, place = _feeds(host), _place(config)  # what may be wrong in a file is found before anything is opened
    state_file = StateFile(config.state if lasting else None)
    gpus = _gpus(host, state_file)
    numbers = SchedulerNumbers()
    providers = _providers(host, gpus, state_file, numbers)
    words, services = _hearing(host, gpus), _services(host, gpus)
    runs = _processes(host, gpus, providers, state_file, now, watched)
    sources: list[Source] = [
        *([gpus] if lasting or not gpus.no_gpu else []),  # a driver may yet be loaded under a daemon
        HostSource(config.proc),
        *feeds,
        runs,
        *words,
        *services,
        _HostInventory(config, place),
    ]

    def close() -> None:
        for heard in words:
            heard.close()
        for asked in services:
            asked.close()
        for part in (providers, gpus, state_file):
            part.close()

    return HostSources(
        sources,
        gpus=gpus,
        close=close,
        coverage=lambda: [line for part in (*feeds, runs, providers, numbers, *services) for line in part.coverage()],
        hidden_holders=lambda: runs.unseen,
        attribution_age_seconds=lambda: max(providers.ages().values(), default=None),
        providers=providers.conditions,
        services=[each for source in services for each in source.followed],
    )


def open_stamper(config: AgentConfig) -> Stamper:
    """Return what stamps rows that may leave this host, with no more names than the settings allow."""
    return Stamper(config.node_name, Identity(config.identity, config.identity_key))


def _gpus(host: _Host, state_file: "StateFile") -> "GpuSource":
    from agent.control import Quiet, gpu_users, make_directory
    from agent.gpu.nvidia.source import open_nvidia
    from agent.gpu.source import GpuHost

    config = host.config
    control = config.control if host.lasting else None
    if control is not None:
        make_directory(control)
    quiet = Quiet(
        control,
        lambda: gpu_users(config.proc, ((one.gpu_uuid, one.pid) for one in gpus.processes())),
        lambda: {str(device.index): device.uuid for device in gpus.devices() if device.parent_uuid is None},
    )
    gpus = open_nvidia(
        GpuHost(
            node=config.node_name,
            proc=config.proc,
            sys=config.sys,
            expected_gpus=config.expected_gpus,
            hang_seconds=config.hang_seconds,
            process_seconds=config.process_seconds,
            state_file=state_file,
            quiet=quiet.gpus,
        ),
        alone=host.alone,
    )
    return gpus


def _run_of(here: HostIdentity, own_run: str | None) -> _RunOf:
    def run_of(process: Process) -> Attribution:
        if own_run is not None and (process.environment or {}).get(VARIABLE) == own_run:
            return Attribution(own_run, "declared", owner=process.owner)
        return attribute(process, here)

    return run_of


def _providers(
    host: _Host, gpus: "GpuSource", state_file: "StateFile", numbers: "SchedulerNumbers"
) -> "HolderProviders":
    """Return who else is asked what holds a GPU; nobody where `gpuledger run` watches one run alone."""
    from agent.attribution.providers import HolderProviders
    from agent.sources.register import authorities

    if host.alone:
        return HolderProviders()
    return _open_providers(host, gpus, state_file, authorities(state_file), numbers)


def _open_providers(
    host: _Host, gpus: "GpuSource", state_file: "StateFile", told_before: Collection[str], numbers: "SchedulerNumbers"
) -> "HolderProviders":
    """Return the providers that the settings allow. Each says for itself whether there is anything of the kind here.

    `told_before` are the authorities that stand behind what was held when the agent before this one ended, `numbers` is
    what is learned of the scheduler's numbers. Where nothing is lasting there is no next reading: each is waited for.
    """
    from agent.attribution.devices import Devices, minors
    from agent.attribution.jobs import DcgmMapping, Jobstats, SlurmJobs
    from agent.attribution.kubelet import Kubelet
    from agent.attribution.providers import UNHURRIED_SECONDS, Aliases, HolderProviders

    config, aliases = host.config, Aliases(state_file)
    files: dict[str, int] = {}  # they change only with the driver, and then the agent is a new one

    def devices() -> Devices:
        found = gpus.devices()
        if not files.keys() >= {one.uuid for one in found if one.parent_uuid is None}:  # it may be loaded after us
            files.update(minors(config.proc))
        return Devices(found, files, numbers)

    providers: list[HolderProvider] = [
        SlurmJobs(host.run_of, devices, config.proc, config.sys, gpus.processes, numbers)
    ]
    if config.kubelet is not None:
        was_there = Kubelet.authority in told_before
        uid_of = aliases.last_part
        providers.append(Kubelet(config.kubelet, config.cluster, devices, uid_of, config.sys, was_there=was_there))
    if config.dcgm_mapping is not None:
        providers.append(DcgmMapping(config.dcgm_mapping, config.cluster, devices))
    if config.jobstats is not None:
        providers.append(Jobstats(config.jobstats, config.cluster, devices))
    if host.lasting:
        return HolderProviders(providers, aliases)
    return HolderProviders(providers, aliases, patience_seconds=UNHURRIED_SECONDS, late_seconds=UNHURRIED_SECONDS)


def _processes(
    host: _Host,
    gpus: "GpuSource",
    providers: "HolderProviders",
    state_file: "StateFile",
    now: Callable[[], int],
    watched: Callable[[], Sequence[int]],
) -> "ProcessSource":
    from agent.sources.processes import ProcessSource
    from agent.sources.register import Register

    config, register = host.config, Register(providers, state_file, host.here)
    return ProcessSource(
        gpus.holding,
        host.run_of,
        now,
        watched,
        config.proc,
        config.sys,
        config.process_seconds,
        register=register,
        state_file=state_file,
    )


def _feeds(host: _Host) -> Sequence["DiskSource | NetworkSource | FlowSource"]:
    """Return what reads what feeds the GPUs; who sends to whom is not read for the sake of one run."""
    from agent.sources.disk import DiskSource
    from agent.sources.flows import FlowSource, Peers
    from agent.sources.network import NetworkSource

    config = host.config
    feeds: list[DiskSource | NetworkSource | FlowSource] = [
        DiskSource(config.proc, sys=config.sys),
        NetworkSource(config.proc, config.sys),
    ]
    if config.flows and not host.alone:
        feeds.append(FlowSource(config.node_name, _run_of_cgroup(host.here), Peers(config.peers_table), config.sys))
    return feeds


def _holders(gpus: "GpuSource") -> Callable[[], Set[int]]:
    return lambda: {one.pid for one in gpus.processes()}


def _hearing(host: _Host, gpus: "GpuSource") -> list["ProgressSource"]:
    """Return what hears runs; their socket is the daemon's alone."""
    from agent.sources.progress import HostRuns, ProgressSource

    config = host.config
    if config.progress is None or not host.lasting:
        return []
    return [ProgressSource(config.progress, HostRuns(config.proc, host.run_of, _holders(gpus)), config.proc)]


def _services(host: _Host, gpus: "GpuSource") -> list["ServiceSource"]:
    """Return what asks services, which is not done for the sake of one run."""
    from agent.sources.services import Owners, ServiceSource, declared_services, fetch

    config = host.config
    if not config.services or host.alone:
        return []
    owners = Owners(config.node_name, config.proc, config.sys, host.run_of, _run_of_cgroup(host.here), _holders(gpus))
    services = declared_services(config.services, config.node_name)
    return [ServiceSource(services, partial(fetch, ca_file=config.ca_file), owners.run_of)]


def _run_of_cgroup(here: HostIdentity) -> Callable[[str], str | None]:
    """Return what tells the run of a cgroup from the text of its file, None where no scheduler made it."""

    def run_of(cgroup: str) -> str | None:
        attribution = attribute(Process(pid=0, started_ticks=0, cgroup=cgroup), here)
        return attribution.run_id if attribution.scheduler == "cgroup" else None

    return run_of


def _place(config: AgentConfig) -> Callable[[], NodePlace]:
    topology = read_topology(
        config.rack or None, config.block or None, config.zone or None, config.topology_table, config.topology_slurm
    )
    return lambda: topology.place(config.node_name)


class _HostInventory:
    """Tells this host's size and place, its row of `inventory` at first, and again whenever it has changed."""

    name = "inventory"
    period_seconds = _INVENTORY_SECONDS

    def __init__(self, config: AgentConfig, place: Callable[[], NodePlace]) -> None:
        self._config = config
        self._place = place
        self._told: Row = {}

    def read(self) -> Reading:
        """Return the row where it is new, else nothing."""
        place, config = self._place(), self._config
        row: Row = {
            "rack": place.rack,
            "block": place.block,
            "zone": place.zone,
            "topology_source": place.source,
            "region": config.region or None,
            "node_group": config.node_group or None,
            "instance_type": config.instance_type or None,
            "cpu_cores": os.cpu_count(),
            "host_memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "agent_version": installed_version(),
        }
        if row == self._told:
            return {}
        self._told = row
        return {"inventory": [row]}
