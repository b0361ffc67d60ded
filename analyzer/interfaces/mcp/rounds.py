"""How often somebody may propose a plan for one problem before the solver's stands."""

import hashlib
import threading
from collections import OrderedDict
from typing import Final

ROUNDS: Final = 3
PROBLEMS_MAX: Final = 1024  # problems; whoever asks for more of them begins again with the oldest


class Rounds:
    """Counts the proposals that did not hold, by who asks and for which problem. What holds ends the count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: OrderedDict[str, int] = OrderedDict()

    def count(self, shown: str | None, problem: str, *, is_valid: bool) -> int:
        """Return which round this proposal was, from 1; no more than one above ROUNDS is counted."""
        key = hashlib.sha256(f"{shown or ''}\n{problem}".encode()).hexdigest()  # a key is not kept as it is shown
        with self._lock:
            round_ = min(self._counts.pop(key, 0) + 1, ROUNDS + 1)
            if not is_valid:
                self._counts[key] = round_
            while len(self._counts) > PROBLEMS_MAX:
                self._counts.popitem(last=False)
        return round_
