"""How far the totals of one run have grown since they were last told, whoever of its processes says them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.attribution.evidence import Identity
from agent.source import Row, Value
from agent.sources.progress.message import Message


@dataclass(slots=True)
class RunTotals:
    """One run. Of each number one process is the voice, the first that says it, until that process has ended.

    Eight ranks that each say the step 120 have not done 960. So the voice is taken to speak for the whole run, and the
    others are not heard; `heard_at` is when it last said anything, in monotonic seconds.
    """

    heard_at: float
    _voices: dict[str, Identity] = field(default_factory=dict)
    _last: dict[str, int] = field(default_factory=dict)
    _grown: dict[str, int] = field(default_factory=dict)
    _checkpoint: str | None = None

    def hear(self, speaker: Identity, message: Message, lives: Callable[[Identity], bool]) -> bool:
        """Take a message; return whether any of it was heard.

        A total that grew adds its growth; one that fell begins anew and adds nothing, as the first one does: the run
        goes on from a checkpoint, or another process counts from another beginning.
        """
        heard = False
        for column, total in message.totals.items():
            voice = self._voices.get(column, speaker)
            if voice != speaker and lives(voice):
                continue
            heard, self._voices[column] = True, speaker
            if (before := self._last.get(column)) is not None:
                self._grown[column] = self._grown.get(column, 0) + max(0, total - before)
            self._last[column] = total
        if message.checkpoint is not None:
            heard, self._checkpoint = True, message.checkpoint
        return heard

    def taken(self) -> Row:
        """Return what was said since the last time this was asked; what was not is unknown, never 0."""
        row: dict[str, Value] = {**self._grown}
        if self._checkpoint is not None:
            row["checkpoint"] = self._checkpoint
        self._grown, self._checkpoint = {}, None
        return row
