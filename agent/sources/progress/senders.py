"""The processes that send, each looked at once and not at every message, and kept within bounds."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.attribution.evidence import Identity
from agent.attribution.run import Attribution
from agent.sources.progress.sender_run import Whose

_SENDERS_MAX = 1024
OF_ONE_USER_MAX = 64
MESSAGES_PER_SECOND = 20  # of one sender; more are not looked at
_ASKED_AGAIN_SECONDS = 60.0  # of a sender that no scheduler knows: it may hold a GPU by then


@dataclass(slots=True)
class Sender:
    """A process that sends, and how many messages it has sent in the second that runs."""

    identity: Identity
    attribution: Attribution
    asked_at: float
    second: int = 0
    messages: int = 0

    def is_too_fast(self, now: float) -> bool:
        """Count a message; return whether it is one too many in this second."""
        if self.second != int(now):
            self.second, self.messages = int(now), 0
        self.messages += 1
        return self.messages > MESSAGES_PER_SECOND


class Senders:
    """The processes that have sent something and live. Times are monotonic seconds.

    `refused` counts messages of those that were too many; `unknown` of those that /proc does not show: ended already,
    hidden, or in a PID namespace that the agent does not see.
    """

    def __init__(self, whose: Whose, lives: Callable[[Identity], bool]) -> None:
        self.refused = 0
        self.unknown = 0
        self._whose = whose
        self._lives = lives
        self._known: dict[tuple[int, int], Sender] = {}  # by pid and user

    def find(self, pid: int, uid: int, now: float) -> Sender | None:
        """Return the sender of these credentials, or None where it cannot be known or is one too many."""
        known = self._known.get((pid, uid))
        if known is not None and not _is_to_be_asked_again(known, now):
            return known
        if known is None and not self._has_room_for(uid):
            self.refused += 1
            return None
        found = self._whose(pid, uid)
        if found is None:
            self.unknown += 1
            return None
        identity, attribution = found
        if known is None or known.identity != identity:
            known = self._known[pid, uid] = Sender(identity, attribution, now)
        known.attribution, known.asked_at = attribution, now
        return known

    def forget_the_dead(self) -> None:
        """Forget the senders that have ended."""
        self._known = {key: sender for key, sender in self._known.items() if self._lives(sender.identity)}

    def runs(self) -> set[str]:
        """Return the runs of which a sender is known."""
        return {sender.attribution.run_id for sender in self._known.values()}

    def _has_room_for(self, uid: int) -> bool:
        if self._is_full_for(uid):
            self.forget_the_dead()
        return not self._is_full_for(uid)

    def _is_full_for(self, uid: int) -> bool:
        return len(self._known) >= _SENDERS_MAX or sum(user == uid for _, user in self._known) >= OF_ONE_USER_MAX


def _is_to_be_asked_again(sender: Sender, now: float) -> bool:
    return sender.attribution.scheduler == "process" and now - sender.asked_at > _ASKED_AGAIN_SECONDS
