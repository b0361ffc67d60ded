"""Requests as a site keeps them: asked, decided, waived, in the registry, with all of their history."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from analyzer.capacity.gate.decided import Decided, Waiver, decided_of
from analyzer.capacity.gate.policy_check import request_id, with_waivers
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.supply import History
from analyzer.errors import ConfigError, LedgerError
from analyzer.findings.judgement import reason_of
from analyzer.ids import LENGTH, LONGEST, TYPED_LEAST
from analyzer.text.as_json import plain_data
from analyzer.text.words import plain
from collector.errors import FullError

if TYPE_CHECKING:  # a pipeline's check keeps nothing, and starts in three quarters of the time without sqlalchemy
    from collector.registry import CapacityEvent, CapacityRequest, Registry

_TRIES = 10  # each time another pilot of the team was decided in between, of which none passes after the first
_LETTERS_MOST = 262_144  # a decision has about ten thousand; a profile may bring names of megabytes


@dataclass(frozen=True, slots=True)
class Teller:
    """Who says something, with which role, and when (microseconds UTC)."""

    who: str
    role: str
    at: int


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a request's history as people read it. `gate` and `reason` are of waivers."""

    at: int
    kind: str
    who: str
    role: str
    verdict: str
    gate: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """A request with what was decided last, its waivers in it, and its whole history."""

    decided: Decided
    asked_at: int
    asked_by: str
    history: tuple[Event, ...]


def identity_of(registry: "Registry", request: Request, sha256: str) -> str:
    """Return the id under which a request with its profile is kept, or will be: as long as it takes to be its own.

    Raises:
        LedgerError: there is none.
    """
    digest = _digest_of(request, sha256)
    for length in range(LENGTH, LONGEST + 1):
        identity = request_id(request, sha256, length)
        there = registry.capacity.find(identity)
        if there is None or there.digest == digest:
            return identity
    raise LedgerError("no unique id is left for this request; change a word of 'why'")


def _digest_of(request: Request, sha256: str) -> str:
    """Return what tells two requests apart."""
    return hashlib.sha256(f"{json.dumps(plain_data(request), sort_keys=True)}\n{sha256}".encode()).hexdigest()


def decide(registry: "Registry", judged: Callable[[], tuple[Decided, History | None]], teller: Teller) -> KeptRequest:
    """Judge a request, keep what is decided and return it; the same decision on the same request again adds nothing.

    Another decision, after another policy or a day that brought the profile over its age, begins without waivers.
    `judged` is asked again where its count of pilots was overtaken: of two at once, one is the first.

    Raises:
        ConfigError: it is too long to be kept, since every list of requests reads it again; or the team has as many
            requests as are kept of one.
        LedgerError: others of the team are decided all the time.
    """
    for _ in range(_TRIES):
        found = _keep(registry, *judged(), teller)
        if found is not None:
            return found
    raise LedgerError("other pilots of this team are being decided; retry in a few seconds")


def _keep(registry: "Registry", decided: Decided, history: History | None, teller: Teller) -> KeptRequest | None:
    """Keep a decision; None where it is on a pilot and another of the team has passed since `history` counted them."""
    from collector.registry import CapacityEvent, CapacityRequest, PilotsSeen  # who keeps has a registry, and so these

    text = json.dumps(plain_data(decided), sort_keys=True)
    if len(text) > _LETTERS_MOST:
        raise ConfigError(
            f"the decision has {len(text):,} characters, and no more than {_LETTERS_MOST:,} are kept; name fewer runs, "
            "or send a profile with shorter names"
        )
    there = registry.capacity.find(decided.request_id)
    if there is not None:
        now = kept_request(registry, decided.request_id)
        if _same(now.decided, decided):
            return now
    sha256 = decided.evidence.sha256 if decided.evidence else ""
    asked = CapacityRequest(
        decided.request_id,
        _digest_of(decided.request, sha256),
        decided.request.team,
        decided.pilot,
        decided.verdict,
        teller.at,
        teller.who,
    )
    event = CapacityEvent(
        decided.request_id, teller.at, "decided", teller.who, teller.role, decided.verdict, decided=text
    )
    counted = None if history is None or history.pilots is None else PilotsSeen(history.since_us, history.pilots)
    try:
        is_added = registry.capacity.add(asked, event, counted if decided.pilot else None)
    except FullError as error:
        raise ConfigError(str(error)) from error
    return kept_request(registry, decided.request_id) if is_added else None


def _same(one: Decided, other: Decided) -> bool:
    """Whether two decisions say the same of every gate, by the same policy."""
    gates = [(gate.name, gate.outcome, gate.value, gate.bar, gate.required, gate.waivable) for gate in one.gates]
    now = [(gate.name, gate.outcome, gate.value, gate.bar, gate.required, gate.waivable) for gate in other.gates]
    return gates == now and (one.policy_digest, one.offer, one.rate) == (other.policy_digest, other.offer, other.rate)


def kept_request(registry: "Registry", typed: str, sees: Callable[[str], bool] = lambda _: True) -> KeptRequest:
    """Return a request by its id, or by the only one that begins so, of those that may be seen.

    Raises:
        LedgerError: there is none, or there are several.
    """
    request = _found(registry, typed, sees)
    history = registry.capacity.history(request.id)
    return _kept(request, [event for _, event in history])


def kept_requests(
    registry: "Registry",
    since: int,
    until: int,
    teams: Sequence[str] | None = None,
    limit: int | None = None,
    before: tuple[int, str] | None = None,
) -> list[KeptRequest]:
    """Return the requests that were asked in a span, the newest first."""
    more = {} if limit is None else {"limit": limit}
    found = registry.capacity.listed(since, until, teams, before=before, **more)
    return [_kept(one, [event for _, event in registry.capacity.history(one.id)]) for one in found]


def requests_of(registry: "Registry", start: int, end: int) -> tuple[Decided, ...]:
    """Return what was decided on the requests asked between two moments, the oldest first: the e-mail's section."""
    return tuple(one.decided for one in reversed(kept_requests(registry, start, end)))


def waive(
    registry: "Registry",
    typed: str,
    gate_name: str,
    reason: str,
    teller: Teller,
    sees: Callable[[str], bool] = lambda _: True,
) -> KeptRequest:
    """Waive one gate of a request, and return what then holds.

    Raises:
        ConfigError: there is no such gate, it may not or need not be waived, or no reason is given.
        LedgerError: there is no such request, or it was decided anew meanwhile.
    """
    from collector.registry import CapacityEvent  # as above

    why = reason_of(reason)
    request = _found(registry, typed, sees)
    history = registry.capacity.history(request.id)
    now = _kept(request, [event for _, event in history]).decided
    _check_waivable(now, gate_name)
    waiver = Waiver(gate_name, why, teller.who, teller.role, teller.at)
    then = with_waivers(now, (*now.waivers, waiver))
    event = CapacityEvent(request.id, teller.at, "waived", teller.who, teller.role, then.verdict, gate_name, why)
    if not registry.capacity.waive(event, history[-1][0]):
        raise LedgerError(f"{request.id} has just changed: review it again")
    return kept_request(registry, request.id)


def _check_waivable(decided: Decided, name: str) -> None:
    known = {gate.name: gate for gate in decided.gates}
    gate = known.get(name)
    if gate is None:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
        raise ConfigError(f"{decided.request_id} has no policy check {plain(name)!r}; {hint}")
    if not gate.waivable:
        raise ConfigError(f"the policy does not allow {name!r} to be overridden")
    if gate.outcome == "PASS":
        raise ConfigError(f"{name!r} has passed: there is nothing to override")
    if any(waiver.gate == name for waiver in decided.waivers):
        raise ConfigError(f"{name!r} is already overridden")


def _found(registry: "Registry", typed: str, sees: Callable[[str], bool]) -> "CapacityRequest":
    absent = LedgerError(f"there is no capacity request {plain(typed)!r}; gpuledger capacity request list shows them")
    if not typed.startswith("q-"):
        raise absent
    exact = registry.capacity.find(typed)
    if exact is not None and sees(exact.team):
        return exact
    begin = registry.capacity.ids(typed) if len(typed) - len("q-") >= TYPED_LEAST else []
    own = [one for id_ in begin if (one := registry.capacity.find(id_)) is not None and sees(one.team)]
    if not own:
        raise absent
    if len(own) > 1:
        raise LedgerError(f"{plain(typed)!r} may be {' or '.join(one.id for one in own)}: type another character")
    return own[0]


def _kept(request: "CapacityRequest", events: "Sequence[CapacityEvent]") -> KeptRequest:
    """Return a request as its history leaves it: the last decision, and the waivers that came after it."""
    last = max((place for place, event in enumerate(events) if event.kind == "decided"), default=None)
    if last is None:
        raise LedgerError(f"the registry has no decision on {request.id}")
    decided = decided_of(json.loads(events[last].decided or "null"))
    waivers = tuple(
        Waiver(event.gate or "", event.reason or "", event.who, event.role, event.at) for event in events[last + 1 :]
    )
    history = tuple(
        Event(event.at, event.kind, event.who, event.role, event.verdict, event.gate, event.reason) for event in events
    )
    return KeptRequest(
        with_waivers(decided, waivers) if waivers else decided, request.asked_at, request.asked_by, history
    )
