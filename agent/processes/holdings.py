"""When a run takes a GPU and gives it back, as its processes show it."""

from collections.abc import Mapping

from agent.attribution.run import Attribution
from agent.source import Row


class Holdings:
    """Remembers which run holds which GPU, and tells the changes as rows of `allocations`."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], tuple[int, Attribution]] = {}

    def update(self, held: Mapping[tuple[str, str], Attribution], now: int) -> list[Row]:
        """Return a row for each (run, GPU) that came or went. `now` is in microseconds UTC.

        The edges are as coarse as the readings; where a scheduler knows better, its own rows come first.
        """
        came = {key: (now, attribution) for key, attribution in held.items() if key not in self._since}
        went = {key: self._since[key] for key in self._since if key not in held}
        rows = [_row(key, since, attribution, now) for key, (since, attribution) in went.items()]
        rows += [_row(key, since, attribution, None) for key, (since, attribution) in came.items()]
        self._since = {key: since for key, since in self._since.items() if key in held} | came
        return rows


def _row(key: tuple[str, str], since: int, attribution: Attribution, until: int | None) -> Row:
    return {
        "run_id": key[0],
        "gpu_uuid": key[1],
        "attempt": attribution.attempt,
        "started_at": since,
        "ended_at": until,
        "scheduler": attribution.scheduler,
        "user": attribution.owner,
    }
