"""The job that reads the lake's files, the longest unread first, and holds them to what was written."""

from typing import TYPE_CHECKING

from agent.wire.units import DAY_US
from collector.errors import StoreError
from collector.lake.soundness.file_check import check, damage_sentence, require_catalogue
from collector.lake.upkeep.outcome import Outcome
from collector.store.noted import named_files

if TYPE_CHECKING:
    from collector.store.database import Store


def check_files(store: "Store", deadline: float, now_us: int) -> Outcome:
    """Read as many files as there is time for; all are read within a day, or the next turn comes soon.

    Raises:
        StoreError: a file or the catalogue is damaged, which the message names; or the catalogue does not answer.
    """
    require_catalogue(store)
    waiting, damages = check(store, deadline, now_us)
    if damages:
        raise StoreError(damage_sentence(damages))
    if not waiting:
        return Outcome("every file of the lake is as it was written")
    with store.session() as session:
        oldest = min((file.checked_at for file in named_files(session)), default=now_us)
    return Outcome(f"{waiting:,} files were not read in this turn", again=oldest < now_us - DAY_US)
