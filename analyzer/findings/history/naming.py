"""Which id each finding of a store has: five letters, and one more where another finding had those five before it.

It follows from the ledger alone, as the book does: of findings that would share an id, the one that was opened first
has it, of those opened in one hour the first by name.
"""

from collections.abc import Iterable, Mapping
from itertools import chain, count
from typing import TYPE_CHECKING

from analyzer.ids import LENGTH, LONGEST, short_id

if TYPE_CHECKING:
    from collector.store.session import Session

LossKey = tuple[str, str | None, str, str | None]  # subject, team, state, cause
_LONGER = "SELECT DISTINCT subject, team, state, cause, finding_id FROM finding_book WHERE length(finding_id) > ?"


def finding_id(subject: str, team: str | None, state: str, cause: str | None, *, length: int = LENGTH) -> str:
    """Return the id of a finding, where no other had it first: made of what it is, and of nothing else."""
    return short_id("f", subject, team or "", state, cause or "", length=length)


def named(keys: Iterable[LossKey], kept: Mapping[LossKey, str] | None = None) -> dict[LossKey, str]:
    """Return an id of its own for each finding. `keys` are in order of opening; `kept` are the ids that some have."""
    ids = dict(kept or {})
    taken = set(ids.values())
    for key in keys:
        if key not in ids:
            ids[key] = _free(key, taken)
            taken.add(ids[key])
    return ids


def _free(key: LossKey, taken: set[str]) -> str:
    usual = (finding_id(*key, length=length) for length in range(LENGTH, LONGEST + 1))
    # Eight bytes of a digest can be met on purpose by who names runs: then a number goes into it as well.
    others = (short_id("f", *map(str, key), str(number), length=LONGEST) for number in count(2))
    return next(one for one in chain(usual, others) if one not in taken)


def longer_ids(session: "Session") -> dict[LossKey, str]:
    """Return the ids of the findings of this store that could not have the usual one; there are hardly ever any."""
    return {
        (who, team, state, cause): one for who, team, state, cause, one in session.rows(_LONGER, [len("f-") + LENGTH])
    }
