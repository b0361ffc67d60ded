"""Input from somewhere faster: staged on local drives, or kept in memory.

A step takes as long as its computation or as the reading of its data, whichever is longer (fetch stalls: DS-Analyzer,
VLDB'21); reads go on beside the computation.

- Staged: the first epoch still comes over the network while the drives are filled; after it a read takes the drives'
  time. How large a data set is, is drawn: from 2 TB to what the drives of a host hold, evenly in its logarithm (ours).
- Kept in memory: of a data set larger than memory, reads of which no order is known hit as often as the share of it
  that is kept (CoorDL's cache, VLDB'21). It is larger than memory, or it would be there already, and up to four times
  (ours).
- Other hosts of the same kind have the same drives: a run that fills them alone fills those of the next host too.
"""

import numpy as np

from agent.wire.units import GIB
from bench.savings.changes.change import Change
from bench.savings.changes.pace import later, lengths_of, retimed, share_of, where, work_before
from simulator import labels
from simulator.activity import NVME_BYTES_PER_SECOND, Activity
from simulator.fed_runs import NFS_CEILING
from simulator.plan import Run
from simulator.site import Host, Site

SMALLEST_BYTES = 2e12
SPARE_BYTES = 64 * GIB  # of a host's memory that no cache may have (ours)
TIMES_MEMORY = 4.0


def stage_input(run: Run, rng: np.random.Generator, change: Change, site: Site) -> Run:
    """Return the run reading from its own hosts' drives once it has read its data set over the network."""
    host = _host(run, site)
    size = float(np.exp(rng.uniform(np.log(SMALLEST_BYTES), np.log(host.nvme_bytes))))
    begun = max(change.since, run.plan.started)
    filled = begun + round(size / NFS_CEILING * 1_000)
    reference = run.timelines[0]
    reading = NFS_CEILING / NVME_BYTES_PER_SECOND
    waits = where(reference, lambda phase: share_of(phase, labels.NETWORK_STORAGE) > 0.99) & later(reference, filled)
    beside, lengths = work_before(reference), lengths_of(reference)
    shorter = np.maximum(0, np.rint((beside + lengths) * reading - beside).astype(np.int64))
    saved, left = int((lengths[waits] - shorter[waits]).sum()), int((beside + shorter)[waits].sum())
    faster = 1 + saved / max(1, left)

    def rewrite(phase: Activity, _: float) -> Activity:
        if not phase.nfs_read:
            return phase
        quiet = phase.but(nfs_read=0.0, nfs_waited=0.0, waiting_workers=0.05, io_pressure=0.04, iowait_cores=0.1)
        return quiet.reading_nvme(phase.nfs_read * faster, phase.nfs_read * faster / NVME_BYTES_PER_SECOND)

    return retimed(run, np.where(waits, shorter, lengths), rewrite, filled)


def cache_input(run: Run, rng: np.random.Generator, change: Change, site: Site) -> Run:
    """Return the run with as much of its data set in its host's memory as there is room for."""
    host = _host(run, site)
    reference = run.timelines[0]
    used = max(phase.host_memory for phase in reference.activities) * host.gpus
    room = host.memory_bytes - used - SPARE_BYTES
    size = room * float(np.exp(rng.uniform(0.0, np.log(TIMES_MEMORY))))
    missed = 1 - room / size
    waits = where(reference, lambda phase: share_of(phase, labels.STORAGE) > 0.99) & later(reference, change.since)
    beside, lengths = work_before(reference), lengths_of(reference)
    shorter = np.maximum(0, np.rint((beside + lengths) * missed - beside).astype(np.int64))

    def rewrite(phase: Activity, _: float) -> Activity:
        if phase.nvme_busy < 0.5 / host.gpus:
            return phase
        made = phase.reading_nvme(phase.nvme_read * missed, phase.nvme_busy * missed, 1.6)
        return made.but(waiting_workers=0.08, io_pressure=0.04 + 0.4 * missed, iowait_cores=2.0 * missed)

    return retimed(run, np.where(waits, shorter, lengths), rewrite, change.since)


def _host(run: Run, site: Site) -> Host:
    return site.host(run.plan.seats[0].node)
