"""Which witnesses this host has. Each says for itself whether there is anything of the kind here."""

from collections.abc import Callable, Sequence

from agent.attribution.aliases import Aliases
from agent.attribution.devices import Device, Devices, minors
from agent.attribution.evidence import Process
from agent.attribution.kubelet import Kubelet
from agent.attribution.mapping import DcgmMapping, Jobstats
from agent.attribution.run import Attribution
from agent.attribution.slurm import SlurmJobs
from agent.attribution.witnesses import Witness, Witnesses
from agent.config import AgentConfig
from agent.remembered import Remembered


def open_witnesses(
    config: AgentConfig,
    listed: Callable[[], Sequence[Device]],
    attribution: Callable[[Process], Attribution],
    remembered: Remembered,
) -> Witnesses:
    """Return the witnesses that the settings allow; `listed` is the driver's list of GPUs and MIG instances."""
    aliases = Aliases(remembered)
    numbers = minors(config.proc)  # they change only with the driver, and then the agent is a new one

    def devices() -> Devices:
        return Devices(listed(), numbers)

    witnesses: list[Witness] = [SlurmJobs(attribution, devices, config.proc, config.sys)]
    if config.kubelet is not None:
        witnesses.append(Kubelet(config.kubelet, config.cluster, devices, aliases.last_part, config.sys))
    if config.dcgm_mapping is not None:
        witnesses.append(DcgmMapping(config.dcgm_mapping, config.cluster, devices))
    if config.jobstats is not None:
        witnesses.append(Jobstats(config.jobstats, config.cluster, devices))
    return Witnesses(witnesses, aliases)
