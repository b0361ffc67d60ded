"""What a job of the upkeep did, for its counters and for people."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one turn of a job. `again` asks for the next turn soon: there is more than one turn may do."""

    said: str
    done: int = 0  # hours, files, rows: what the job counts
    again: bool = False
