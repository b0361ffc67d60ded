"""Which witnesses this host has. Each says for itself whether there is anything of the kind here."""

from collections.abc import Callable, Collection, Sequence

from agent.attribution.aliases import Aliases
from agent.attribution.devices import Device, Devices, minors
from agent.attribution.evidence import Process
from agent.attribution.kubelet import Kubelet
from agent.attribution.mapping import DcgmMapping, Jobstats
from agent.attribution.providers import UNHURRIED_SECONDS, HolderProvider, HolderProviders
from agent.attribution.run import Attribution
from agent.attribution.slurm import SlurmJobs
from agent.settings.config import AgentConfig
from agent.state_file import StateFile


def open_providers(
    config: AgentConfig,
    listed: Callable[[], Sequence[Device]],
    attribution: Callable[[Process], Attribution],
    state_file: StateFile,
    told_before: Collection[str] = (),
    *,
    lasting: bool = True,
) -> HolderProviders:
    """Return the witnesses that the settings allow; `listed` is the driver's list of GPUs and MIG instances.

    `told_before` are the authorities that stand behind what was held when the agent before this one ended. Where
    nothing is `lasting` there is no next reading: each is waited for.
    """
    aliases = Aliases(state_file)
    numbers: dict[str, int] = {}  # they change only with the driver, and then the agent is a new one

    def devices() -> Devices:
        found = listed()
        if not numbers.keys() >= {one.uuid for one in found if one.parent_uuid is None}:  # it may be loaded after us
            numbers.update(minors(config.proc))
        return Devices(found, numbers)

    providers: list[HolderProvider] = [SlurmJobs(attribution, devices, config.proc, config.sys)]
    if config.kubelet is not None:
        was_there = Kubelet.authority in told_before
        uid_of = aliases.last_part
        providers.append(Kubelet(config.kubelet, config.cluster, devices, uid_of, config.sys, was_there=was_there))
    if config.dcgm_mapping is not None:
        providers.append(DcgmMapping(config.dcgm_mapping, config.cluster, devices))
    if config.jobstats is not None:
        providers.append(Jobstats(config.jobstats, config.cluster, devices))
    if lasting:
        return HolderProviders(providers, aliases)
    return HolderProviders(providers, aliases, patience_seconds=UNHURRIED_SECONDS, late_seconds=UNHURRIED_SECONDS)
