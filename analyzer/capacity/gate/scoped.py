"""What a key of some teams is told of a decision: its own work and money, and nothing of what the fleet has free.

Free GPUs are those of all teams together: who holds fewer is read off them. The API's other routes tell a team's key
nothing of the fleet either. The verdict is the same for everybody: no gate looks at them.
"""

from dataclasses import replace

from analyzer.capacity.gate.decided import Decided, Need, Offer, Option
from analyzer.capacity.gate.policy_check import with_sentences
from analyzer.text.words import plain


def without_the_fleet(decided: Decided) -> Decided:
    """Return a decision that says of no GPU beyond the team's own whether it is free."""
    if decided.offer is None and all(option.to_buy is None for option in decided.options):
        return decided
    hidden = f"how many {plain(decided.request.sku)} stand free in the fleet: keys of all teams see it"
    return with_sentences(
        replace(
            decided,
            offer=None if decided.offer is None else _offer(decided.offer),
            options=tuple(_option(option) for option in decided.options),
            missing=(*(text for text in decided.missing if "stand free" not in text), hidden),
        )
    )


def _offer(offer: Offer) -> Offer:
    return replace(offer, likely=_need(offer.likely), careful=_need(offer.careful), free_gpus=None, free_day=None)


def _need(need: Need) -> Need:
    return replace(need, to_buy=None)


def _option(option: Option) -> Option:
    """Return a choice without what would be bought; of no GPUs at all that is none, and says nothing."""
    return replace(option, to_buy=None if option.more else option.to_buy)
