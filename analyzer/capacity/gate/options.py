"""What can be decided: as asked, the fix and likely, the fix and careful, nothing; and what follows if it is wrong."""

from dataclasses import dataclass

from analyzer.capacity.gate.decided import InTime, Need, Offer, Option, Verdict
from analyzer.capacity.gate.offer import price_of
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.supply import Supply

_LETTERS = "ABCD"


@dataclass(frozen=True, slots=True)
class Loss:
    """The largest avoidable part of the work's GPU time, in thousandths of all of it: "waits" for input."""

    permille: int
    verb: str


def options_of(
    request: Request, supply: Supply, offer: Offer | None, grown: Need | None, loss: Loss | None, verdict: Verdict
) -> tuple[Option, ...]:
    """Return the choices; what is less than was asked stands beside it: after the fix, else as the growth says.

    `grown` is what the growth takes at today's speed, None where nobody said it.
    """
    rate = supply.rate.micros_per_gpu_hour if supply.rate else None
    asked = Need(
        speedup_permille=1000,
        needed_tenths=0,
        gpus=0,
        more=request.gpus,
        to_buy=None if supply.free is None else max(0, request.gpus - supply.free.gpus),
        micros=price_of(request.gpus, request.hours, rate),
        less_micros=0,
    )
    lost = f"{(loss.permille + 5) // 10} % {loss.verb}" if loss is not None and loss.permille >= 10 else "stand unused"
    fixes = [] if offer is None else _fixes(request, offer)
    if not fixes and grown is not None and grown.more < request.gpus:
        fixes = [_option(f"approve {grown.more}, as it grows", grown, "yes", "ask again")]
    is_fix_advised = verdict != "PASS" and bool(fixes)
    made = [_option("approve as asked", asked, "yes", lost, advised=verdict == "PASS" and not is_fix_advised), *fixes]
    if is_fix_advised:
        made[1] = _advised(made[1])
    nothing = Option("", "approve nothing", 0, 0, 0 if rate is not None else None, "no", "it comes late", False)
    return tuple(_lettered(letter, option) for letter, option in zip(_LETTERS, [*made, nothing], strict=False))


def _fixes(request: Request, offer: Offer) -> list[Option]:
    likely, careful = offer.likely, offer.careful
    if likely.more >= request.gpus:
        return []
    between = careful.more - likely.more
    later = f"{between} more later" if between else "ask again"
    then = f"fix first, then {likely.more}" if likely.more else "fix first, no more GPUs"
    made = [_option(then, likely, "likely", later)]
    if between and careful.more < request.gpus:
        made.append(_option(f"fix first, then {careful.more}", careful, "yes", f"{between} too many"))
    return made


def _option(what: str, need: Need, in_time: InTime, if_wrong: str, *, advised: bool = False) -> Option:
    return Option("", what, need.more, need.to_buy, need.micros, in_time, if_wrong, advised)


def _advised(one: Option) -> Option:
    return Option(one.letter, one.what, one.more, one.to_buy, one.micros, one.in_time, one.if_wrong, True)


def _lettered(letter: str, one: Option) -> Option:
    return Option(letter, one.what, one.more, one.to_buy, one.micros, one.in_time, one.if_wrong, one.advised)
