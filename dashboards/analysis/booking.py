"""One pass of the analysis beside a server: seal, see whose turn it is, make the ledger, book it into the lake."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from analyzer.analysis import analyze
from analyzer.ledger.booking import Analysis
from analyzer.reports.prediction_book import keep_recommendations
from analyzer.settings.settings import Settings
from collector.errors import HeldElsewhereError
from collector.store.adopting import catch_up
from collector.store.books import mirror, mirror_findings

if TYPE_CHECKING:
    from collector.lake.sealing.sealer import Sealer
    from collector.store.database import Store
    from collector.tenancy.analyzing import BookingLease


class Booker:
    """Makes the passes of one store. `lease` is None where nobody else could book into its lake.

    `tell` is called after each pass that booked, with its moment: who books is who raises alarms.
    """

    def __init__(
        self,
        store: "Store",
        settings: Settings,
        lease: "BookingLease | None",
        sealer: "Sealer | None",
        tell: Callable[[int], object] | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._sealer = sealer
        self.lease = lease
        self._tell = tell

    def __call__(self, now_us: int) -> Analysis:
        """Make one pass, and tell what it found. Raises as book() does."""
        done = self.book(now_us)
        if self._tell is not None:
            self._tell(now_us)
        return done

    def book(self, now_us: int) -> Analysis:
        """Make one pass; while another analyzer has the lease, follow its books instead.

        Raises:
            HeldElsewhereError: another has it; our hot file says what the lake's books say.
            RegistryError: nobody can say who has it; nothing was booked.
            TakenError: another has booked in spite of it; nothing of this pass was booked.
        """
        if self._sealer is not None:
            self._sealer.once()  # so that the ledger speaks of what has just arrived
        if self.lease is None:
            done = analyze(self._store, self._settings, now_us=now_us)
            mirror(self._store)
            keep_recommendations(self._store, self._settings, now_us)
            return done
        try:
            name = self.lease.take().name
        except HeldElsewhereError:
            catch_up(self._store)
            mirror_findings(self._store)  # what people say here goes there
            raise
        done = analyze(self._store, self._settings, now_us=now_us)
        with self.lease.guard():
            mirror(self._store, name)
            keep_recommendations(self._store, self._settings, now_us)
        return done

    def stop(self) -> None:
        """Let another take the lease at once."""
        if self.lease is not None:
            self.lease.release()
