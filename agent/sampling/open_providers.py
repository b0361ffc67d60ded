"""Which witnesses this host has. Each says for itself whether there is anything of the kind here."""

from collections.abc import Callable, Collection, Sequence

from agent.attribution.aliases import Aliases
from agent.attribution.devices import Device, Devices, minors
from agent.attribution.evidence import Process
from agent.attribution.kubelet import Kubelet
from agent.attribution.mapping import DcgmMapping, Jobstats
from agent.attribution.providers import UNHURRIED_SECONDS, Witness, Witnesses
from agent.attribution.run import Attribution
from agent.attribution.slurm import SlurmJobs
from agent.settings.config import AgentConfig
from agent.state_file import Remembered


def open_witnesses(
    config: AgentConfig,
    listed: Callable[[], Sequence[Device]],
    attribution: Callable[[Process], Attribution],
    remembered: Remembered,
    told_before: Collection[str] = (),
    *,
    lasting: bool = True,
) -> Witnesses:
    """Return the witnesses that the settings allow; `listed` is the driver's list of GPUs and MIG instances.

    `told_before` are the authorities that stand behind what was held when the agent before this one ended. Where
    nothing is `lasting` there is no next reading: each is waited for.
    """
    aliases = Aliases(remembered)
    numbers: dict[str, int] = {}  # they change only with the driver, and then the agent is a new one

    def devices() -> Devices:
        found = listed()
        if not numbers.keys() >= {one.uuid for one in found if one.parent_uuid is None}:  # it may be loaded after us
            numbers.update(minors(config.proc))
        return Devices(found, numbers)

    witnesses: list[Witness] = [SlurmJobs(attribution, devices, config.proc, config.sys)]
    if config.kubelet is not None:
        was_there = Kubelet.authority in told_before
        uid_of = aliases.last_part
        witnesses.append(Kubelet(config.kubelet, config.cluster, devices, uid_of, config.sys, was_there=was_there))
    if config.dcgm_mapping is not None:
        witnesses.append(DcgmMapping(config.dcgm_mapping, config.cluster, devices))
    if config.jobstats is not None:
        witnesses.append(Jobstats(config.jobstats, config.cluster, devices))
    if lasting:
        return Witnesses(witnesses, aliases)
    return Witnesses(witnesses, aliases, patience_seconds=UNHURRIED_SECONDS, late_seconds=UNHURRIED_SECONDS)
