"""How recommendations are made: the keys of the table [placement] that are no guards."""

from dataclasses import dataclass, field
from typing import Any


def _about(help: str) -> dict[str, Any]:  # noqa: A002 - what the reader shows
    return {"help": help}


@dataclass(frozen=True, slots=True)
class Advising:
    """How long the whole fleet is planned for, and whether realised savings correct what is assumed; both are ours."""

    plan_seconds: int = field(
        default=10, metadata=_about("how long a plan of the whole fleet may be searched for at most; 0 makes none")
    )
    learn_shares: bool = field(
        default=False,
        metadata=_about("whether shares that twenty realised cases of a kind show take the place of the assumed ones"),
    )


DEFAULT = Advising()
