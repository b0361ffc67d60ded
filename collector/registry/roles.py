"""Who may do what, in one table. access/gate.py says which right each route needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

KeyRole = Literal["agent", "writer", "read", "owner", "approver", "finance", "admin"]
_Role = Literal["agent", "writer", "read", "owner", "approver", "finance", "admin", "site", "local"]


class Right(Enum):
    """What a route asks of who comes."""

    OPEN = "open"  # nothing: whoever can reach the port
    LEARN = "learn"  # the contract: no figure and no name
    BATCHES = "batches"  # telemetry as agents send it
    REMOTE_WRITE = "remote write"  # telemetry as Prometheus sends it
    READ = "read"  # money, names, runs
    JUDGE = "judge"  # say of a finding whether it is right, mute it, or decide on a recommendation
    ASK = "ask for capacity"  # a request for more GPUs, with its profile
    APPROVE = "override a policy check"  # of such a request
    RECONCILE = "reconcile an invoice with the ledger"
    CHANGE = "change"  # prices, gates, keys


ROLES: Final[Mapping[_Role, frozenset[Right]]] = {
    "agent": frozenset({Right.LEARN, Right.BATCHES}),  # of its own host: own_word.py
    "writer": frozenset({Right.LEARN, Right.BATCHES, Right.REMOTE_WRITE}),
    "read": frozenset({Right.LEARN, Right.READ}),  # of all teams, or of those that its key names
    "owner": frozenset({Right.LEARN, Right.READ, Right.JUDGE, Right.ASK}),  # the same, and judges what it sees
    # Who waives a gate asks for nothing itself: whoever asks needs somebody else's word.
    "approver": frozenset({Right.LEARN, Right.READ, Right.APPROVE}),
    # Reports say whether the invoice matches: who says that can change no price to make it so.
    "finance": frozenset({Right.LEARN, Right.READ, Right.RECONCILE}),
    "admin": frozenset({Right.LEARN, Right.READ, Right.JUDGE, Right.ASK, Right.RECONCILE, Right.CHANGE}),
    # The tokens of the settings, with which a site begins.
    "site": frozenset({Right.LEARN, Right.BATCHES, Right.REMOTE_WRITE, Right.READ}),
    # Loopback of a server that has neither tokens nor keys: who can reach it can also read its files.
    "local": frozenset(Right) - {Right.OPEN},
}
KEY_ROLES: Final[tuple[KeyRole, ...]] = ("agent", "writer", "read", "owner", "approver", "finance", "admin")
PERSON_ROLES: Final[tuple[KeyRole, ...]] = ("read", "owner", "approver", "finance", "admin")
TEAM_ROLES: Final[tuple[KeyRole, ...]] = ("read", "owner", "approver")  # roles that may be of some teams alone


PERSON: Final = "person-"  # how the ids of people begin, who have no key


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from; an ASGI request carries it as `scope["principal"]`.

    `teams` are those whose money, runs and findings may be seen, None is all. `node` is the one host whose rows an
    agent's key may write, None is any. `user` is the name that a person's runs bear, empty for a key.
    """

    id: str  # of the key, or a pseudonym of a person's; settings, or loopback
    role: _Role
    name: str = ""
    node: str | None = None
    teams: frozenset[str] | None = None
    user: str = ""

    @property
    def signs_as(self) -> str:
        """Who decides, as it is written down beside what was decided."""
        return self.user or self.id

    @property
    def words(self) -> str:
        """What a refusal calls it."""
        return f"your role, {self.role}," if self.id.startswith(PERSON) else f"a key with the role {self.role}"

    def may(self, right: Right) -> bool:
        """Return whether the role has this right."""
        return right is Right.OPEN or right in ROLES[self.role]


SETTINGS: Final = Principal("settings", "site", "a token of the settings")
LOOPBACK: Final = Principal("loopback", "local", "this machine")
