"""What one node has free over time, and the earliest gap that a task fits into."""

from bisect import bisect_left, bisect_right


class Timetable:
    """One node's free resources as steps: `free[i]` (packed, see Instance) from `times[i]` until the next."""

    __slots__ = ("_free", "_guard", "_times")

    def __init__(self, free: int, guard: int) -> None:
        self._times = [0]
        self._free = [free]
        self._guard = guard

    def earliest(self, ready: int, seconds: int, need: int) -> int:
        """Return the first moment from `ready` on at which the task fits for as long as it runs."""
        if seconds == 0:  # what ends as it starts takes nothing
            return ready
        times, free, guard = self._times, self._free, self._guard
        last = len(times) - 1
        step = bisect_right(times, ready) - 1
        start = ready
        while True:
            if (free[step] - need) & guard != guard:  # something is short: the gap begins with the next step at best
                step += 1  # there is one: in the last step nothing runs, and the task fits the empty node
                start = times[step]
            elif step == last or times[step + 1] >= start + seconds:
                return start
            else:
                step += 1

    def book(self, start: int, seconds: int, need: int) -> None:
        """Take what the task needs from `start` on; it must fit."""
        if seconds == 0:
            return
        first, beyond = self._step(start), self._step(start + seconds)
        free = self._free
        for step in range(first, beyond):
            free[step] -= need

    def _step(self, moment: int) -> int:
        """Return the step that begins at a moment, made if there is none."""
        step = bisect_left(self._times, moment)
        if step == len(self._times) or self._times[step] != moment:
            self._times.insert(step, moment)
            self._free.insert(step, self._free[step - 1])
        return step
