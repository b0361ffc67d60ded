"""What a decision on a request says on page one, in words: the seam between the gates and the page."""

from dataclasses import dataclass

from analyzer.capacity.profile.facts import StateHours


@dataclass(frozen=True, slots=True)
class ShownGate:
    """One gate: what the request has, what is asked of it, and PASS, FAIL or N/E."""

    label: str
    value: str
    bar: str
    outcome: str


@dataclass(frozen=True, slots=True)
class ShownOption:
    """One thing that can be decided: "A approve as asked", "+32", "15", "$111,820.80", "yes", "40 % waits"."""

    what: str
    gpus: str
    to_buy: str
    price: str
    in_time: str
    if_wrong: str
    advised: bool = False


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A request and its verdict. `asked` has a line each for what, price and why; `span` heads the column of prices."""

    request_id: str
    asked: tuple[str, ...]
    verdict: str
    answer: str
    options: tuple[ShownOption, ...]
    gates: tuple[ShownGate, ...]
    span: str
    in_time: str = "in time?"  # heads the column that says whether it comes in time
    fix: str | None = None
    stopped: str | None = None  # the gates that stop it, by name
    judged: str | None = None  # which of the profile's runs count, where not all do
    booked: tuple[StateHours, ...] = ()  # and where the time of those went
