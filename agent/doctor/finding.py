"""One line of the examination: what is asked, the answer, and the way out where it is no."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

HostAnswer = Literal["yes", "some", "no", "bad"]


@dataclass(frozen=True, slots=True)
class HostCheckLine:
    """`bad` is a failure that somebody must mend, and makes the command's exit code 1; `no` only says what is not."""

    answer: HostAnswer
    what: str
    remedy: str = ""

    def document(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return asdict(self)
