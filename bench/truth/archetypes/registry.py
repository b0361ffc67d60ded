"""Every kind of run, with the cells of the design that make sense for it."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.truth.archetypes import ends, hosts, idle, kernels, peers, sharing, starts, training
from bench.truth.draw import Draw


@dataclass(frozen=True, slots=True)
class Archetype:
    """One kind of run: how it is made, whether it has steps, by how many ranks, in how many groups that differ."""

    make: Callable[[Draw], None]
    stepped: bool = True
    ranks: tuple[int, ...] = (1, 8)
    groups: int = 1

    @property
    def name(self) -> str:
        """The name of the function that makes it."""
        return self.make.__name__


_BOTH = (
    training.healthy,
    training.healthy_memory_bound,
    training.page_cache,
    training.busy_disk,
    training.remote_preprocessing,
    training.remote_preprocessing_starved,
    training.storage_local,
    training.storage_network,
    training.storage_object,
    training.preprocessing,
    training.cpu_quota,
    training.one_hot_process,
    training.loader_software,
    training.host_to_device,
    training.cold_first_epoch,
    training.checkpoint_heavy,
    training.evaluation,
    training.offloaded_optimizer,
    training.remote_teacher,
    kernels.launch_bound,
    kernels.small_kernels,
    kernels.throttled_power,
    kernels.throttled_heat,
    kernels.at_the_power_limit,
    peers.reinforcement,
)

ARCHETYPES: dict[str, Archetype] = {
    archetype.name: archetype
    for archetype in (
        *(Archetype(make) for make in _BOTH),
        Archetype(peers.communication, ranks=(8,)),
        Archetype(peers.straggler_heat, ranks=(8,), groups=2),
        Archetype(peers.straggler_skew, ranks=(8,), groups=2),
        Archetype(peers.straggler_sleep, ranks=(8,), groups=2),
        Archetype(peers.hang, ranks=(8,)),
        Archetype(peers.pipeline, ranks=(8,)),
        Archetype(idle.never_used, stepped=False),
        Archetype(idle.abandoned, stepped=False),
        Archetype(idle.notebook, stepped=False, ranks=(1,)),
        Archetype(idle.serving_batched, stepped=False),
        Archetype(idle.serving_mostly_idle, stepped=False),
        Archetype(idle.serving_unbatched, stepped=False),
        Archetype(idle.serving_dead, stepped=False),
        Archetype(hosts.starving_apart, ranks=(8,), groups=2),
        Archetype(hosts.within_rack, ranks=(8,)),
        Archetype(hosts.across_racks, ranks=(8,)),
        Archetype(ends.broke_off),
        Archetype(ends.broke_off_unsaved),
        Archetype(ends.displaced),
        Archetype(sharing.shared_trainer, ranks=(1,), groups=2),
        Archetype(sharing.shared_starved, ranks=(1,), groups=2),
        Archetype(sharing.shared_services, stepped=False, ranks=(1,), groups=2),
        Archetype(training.packed_stages, stepped=False),
        Archetype(starts.pod_pulls_image, stepped=False),
        Archetype(starts.unpacks_image, stepped=False),
        Archetype(starts.resumed, stepped=False),
    )
}
