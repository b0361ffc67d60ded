"""Which run a job continues: a chain of jobs, each of which waits for the last to end, is one piece of work."""

import re
from typing import TYPE_CHECKING

from collector.schedulers.slurm.job import Job

if TYPE_CHECKING:
    from collector.schedulers.known_allocations import AllocationBook

_AFTER = re.compile(r"(?:afterany|afternotok):(\d+(?:_\d+)?)")


def predecessor(job: Job, prefix: str, book: "AllocationBook") -> str | None:
    """Return the run that a job continues, or None.

    It waits for exactly one other to end, however that ends, and bears its name and its user: so do jobs that submit
    their own continuation. Slurm forgets a dependency once it is met, so that this is learned while the job waits.
    """
    after = _AFTER.findall(job.dependency or "")
    if len(after) != 1 or job.name is None:
        return None
    run_id = f"{prefix}{after[0]}"
    same = any(row.get("name") == job.name and row.get("user") == job.user for row in book.of(run_id))
    return run_id if same else None
