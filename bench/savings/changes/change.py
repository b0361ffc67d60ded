"""One change of a site: what is done, to which runs, from when on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """What somebody did after a recommendation; `kind` is a name in `apply.KINDS`.

    A changed run does the same work as without the change: what it saves is time. Each attempt of it counts as one.
    """

    kind: str
    runs: tuple[str, ...]  # the scheduler's job ids
    since: int = 0  # milliseconds since the site's start: what was before stays as it was
    workers: float = 2.0  # of more_workers: so many times the loader workers
    cores: float = 1.5  # of more_workers: so many times the cores
    nodes: tuple[str, ...] = ()  # of cool and exclude: the hosts that are seen to
    interval_seconds: float = 0.0  # of save_more_often: between two checkpoints
