"""What runs beside the requests of a server: a thread from its start until its stop."""

import threading


class Background:
    """A daemon thread of its own. `_run` says what it does, and ends soon after `_ending` is set."""

    def __init__(self, name: str, stop_seconds: float) -> None:
        self._ending = threading.Event()
        self._stop_seconds = stop_seconds
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for what is under way, so long and no longer."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(self._stop_seconds)

    def _run(self) -> None:
        raise NotImplementedError
