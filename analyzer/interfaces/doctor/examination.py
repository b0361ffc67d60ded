"""The whole examination: one look at a store, subject by subject; what cannot be looked at is said, never skipped."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analyzer.interfaces.doctor.access import access
from analyzer.interfaces.doctor.agents import agents
from analyzer.interfaces.doctor.forecast import forecast
from analyzer.interfaces.doctor.invariants import Check, examine
from analyzer.interfaces.doctor.jobs import jobs
from analyzer.interfaces.doctor.ledger import ledger
from analyzer.interfaces.doctor.line import CheckLine, Section
from analyzer.interfaces.doctor.mail import mail
from analyzer.interfaces.doctor.sight import Sight
from analyzer.interfaces.doctor.storage import storage
from collector.errors import StoreError

_SUBJECTS: tuple[tuple[str, Callable[[Sight], Section]], ...] = (
    ("STORE", storage),
    ("AGENTS", agents),
    ("DISK", forecast),
    ("ACCESS", access),
    ("JOBS", jobs),
    ("MAIL", mail),
)


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that the page says. `checks` are the ledger's invariants, exact."""

    where: str
    looked_at: int  # microseconds UTC
    checks: tuple[Check, ...]
    sections: tuple[Section, ...]

    @property
    def is_right(self) -> bool:
        """Whether nothing is there that somebody must mend."""
        return all(line.answer != "bad" for section in self.sections for line in section.lines)


def examination(sight: Sight, subjects: Iterable[tuple[str, Callable[[Sight], Section]]] = _SUBJECTS) -> Examination:
    """Look at everything once: the whole ledger is read for it.

    Raises:
        StoreError: the ledger cannot be read at all.
    """
    checks = tuple(examine(sight.session, sight.settings))
    sections = (ledger(checks), *looked_at(sight, subjects))
    return Examination(str(sight.store.path or "in memory"), sight.now_us, checks, sections)


def looked_at(
    sight: Sight, subjects: Iterable[tuple[str, Callable[[Sight], Section]]] = _SUBJECTS
) -> tuple[Section, ...]:
    """Return what can be said at once, of everything but the ledger."""
    return tuple(_looked(name, look, sight) for name, look in subjects)


def _looked(name: str, look: Callable[[Sight], Section], sight: Sight) -> Section:
    """Return a section; where the store does not answer, that is what it says."""
    try:
        return look(sight)
    except StoreError as error:
        return Section(name, (CheckLine("bad", f"the store does not answer: {error}", "its log says more"),))
