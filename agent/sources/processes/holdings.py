"""When a run takes a GPU and gives it back: the edges of what is held, across restarts of the agent."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from agent.attribution.holds import PRECEDENCE, GpuHold
from agent.attribution.run import Attribution
from agent.source import Row
from agent.state_file import StateFile

SECTION = "holdings"

HoldingKey = tuple[str, str, int]  # run id, the GPU's UUID, and attempt


class Holdings:
    """Remembers which run holds which GPU, and tells the changes as rows of `allocations`.

    What was open when an agent ended is told again by the next one: as still open, from when it was taken, or as
    given back when it was last seen held. As long as the word of who told it is awaited it is open.
    """

    def __init__(self, state_file: StateFile | None = None) -> None:
        self._state_file = state_file or StateFile(None)
        self._open, self._seen_at = _kept(self._state_file.section(SECTION))
        self._retell = True
        self._unconfirmed = set(self._open)  # what only an earlier agent saw

    def update(self, held: Iterable[GpuHold], now: int, awaited: Collection[str] = ()) -> list[Row]:
        """Return a row for each (run, GPU) that came, went, or of which more is known. `now` is in microseconds UTC.

        The edges are as coarse as the readings; where a scheduler knows better, its own rows come first. `awaited` are
        the authorities who have not spoken since this agent began.
        """
        holds = {_key(one): one for one in held}
        unseen = {key: self._open[key][1] for key in self._unconfirmed - holds.keys()}
        waits = {key: one for key, one in unseen.items() if one.attribution.scheduler in awaited}
        holds |= waits
        went = {key: at for key, at in self._open.items() if key not in holds}
        last = now if self._seen_at is None else min(now, self._seen_at)  # when the earlier agent looked
        rows = [_row(one, since, max(since, last if key in unseen else now)) for key, (since, one) in went.items()]
        self._unconfirmed = set(waits)
        before = self._open
        self._open = {key: (before[key][0] if key in before else now, one) for key, one in holds.items()}
        rows += [
            _row(one, since, None)
            for key, (since, one) in self._open.items()
            if self._retell or key not in before or before[key][1] != one
        ]
        self._retell = False
        self._state_file.keep(SECTION, _to_keep(self._open, now))
        return rows


def authorities(state_file: StateFile) -> frozenset[str]:
    """Return whose word stands behind what was held when the agent before this one ended."""
    held, _ = _kept(state_file.section(SECTION))
    return frozenset(one.attribution.scheduler for _, one in held.values())


def _key(one: GpuHold) -> HoldingKey:
    return (one.attribution.run_id, one.gpu_uuid, one.attribution.attempt or 0)


def _row(one: GpuHold, since: int, until: int | None) -> Row:
    known = one.attribution
    return {
        "run_id": known.run_id,
        "gpu_uuid": one.gpu_uuid,
        "attempt": known.attempt,
        "member": known.member,
        "rank": known.rank,
        "gpu_fraction": one.fraction,
        "started_at": since,
        "ended_at": until,
        "scheduler": known.scheduler,
        "user": known.owner,
        "labels": json.dumps(known.labels, sort_keys=True) if known.labels else None,
    }


def _to_keep(held: Mapping[HoldingKey, tuple[int, GpuHold]], now: int) -> dict[str, Any]:
    return {"seen_at": now, "open": [{**_row(one, since, None)} for since, one in held.values()]}


def _kept(section: Mapping[str, Any]) -> tuple[dict[HoldingKey, tuple[int, GpuHold]], int | None]:
    """Return what an earlier agent left open, and when it last looked; what it did not write so is passed over."""
    seen_at, rows = section.get("seen_at"), section.get("open")
    if not isinstance(seen_at, int) or not isinstance(rows, list):
        return {}, None
    found: dict[HoldingKey, tuple[int, GpuHold]] = {}
    for row in rows:
        try:
            one, since = _held(row), int(row["started_at"])
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        found[_key(one)] = (since, one)
    return found, seen_at


def _held(row: Mapping[str, Any]) -> GpuHold:
    if row["scheduler"] not in PRECEDENCE:
        raise ValueError(f"no authority is named {row['scheduler']!r}")
    attribution = Attribution(
        run_id=str(row["run_id"]),
        scheduler=row["scheduler"],
        attempt=None if row["attempt"] is None else int(row["attempt"]),
        owner=row["user"],
        member=row["member"],
        rank=row["rank"],
        labels=dict(json.loads(row["labels"])) if row["labels"] else {},
    )
    return GpuHold(str(row["gpu_uuid"]), attribution, row["gpu_fraction"])
