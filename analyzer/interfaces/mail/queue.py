"""Send what is due: each mail once, back into the queue with growing waits where the server says "later"."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyzer.interfaces.mail.errors import LaterError, RefusedError, UnreachableError

if TYPE_CHECKING:
    from collector.registry import Mails, Queued

FIRST_WAIT_US = 15 * 60_000_000
LONGEST_WAIT_US = 8 * 3_600_000_000
MOST_ATTEMPTS = 12  # with these waits about two and a half days: before the next week's mail is due
_Deliver = Callable[[str, bytes], None]


@dataclass(slots=True)
class Round:
    """What one round came to, by address; `unreachable` says why nothing more was tried."""

    sent: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    unreachable: str | None = None


def wait_us(attempts: int) -> int:
    """Return how long a mail rests after so many attempts: a quarter of an hour, then twice as long each time."""
    return min(LONGEST_WAIT_US, FIRST_WAIT_US << min(attempts - 1, 16))


def send_due(mails: "Mails", deliver: _Deliver, clock: Callable[[], int]) -> Round:
    """Hand over every mail that is due, one after another; `deliver` raises MailErrors, `clock` gives microseconds.

    It ends with the first mail for which the server cannot be reached: the others keep their place in the queue.

    Raises:
        RegistryError: the registry does not answer.
    """
    found = Round()
    while (mail := mails.claim(clock())) is not None:
        try:
            deliver(mail.address, (mail.body or "").encode("ascii"))
        except RefusedError as error:
            mails.note(mail, "failed", str(error), clock())
            found.failed.append(f"{mail.address}: {error}")
        except (LaterError, UnreachableError) as error:
            _later(mails, mail, error, clock(), found)
            if isinstance(error, UnreachableError):
                found.unreachable = str(error)
                return found
        except Exception:
            mails.note(mail, "queued", "not tried", clock(), clock())  # ours, such as a password file that is gone
            raise
        else:
            mails.note(mail, "sent", "", clock())
            found.sent.append(mail.address)
    return found


def _later(mails: "Mails", mail: "Queued", error: Exception, now: int, found: Round) -> None:
    if mail.attempts >= MOST_ATTEMPTS:
        mails.note(mail, "failed", f"given up after {mail.attempts} attempts: {error}", now)
        found.failed.append(f"{mail.address}: given up after {mail.attempts} attempts: {error}")
        return
    mails.note(mail, "queued", str(error), now, now + wait_us(mail.attempts))
    found.later.append(f"{mail.address}: {error}")
