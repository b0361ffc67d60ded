"""Write chosen offers as a price file: every row with its date, its source and the version that the source bore."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from analyzer.prices.importing.offers import Offer
from analyzer.prices.money import dollars
from analyzer.prices.site import price_books


@dataclass(frozen=True, slots=True)
class Dating:
    """Who offers, by which catalogue of which version, as of when; from when it is paid, until when, and where."""

    provider: str
    catalogue: str
    version: str
    as_of: date
    starts: date
    ends: date | None
    node_group: str | None


def price_file(chosen: Sequence[tuple[Offer, int]], dating: Dating) -> str:
    """Return the text of a price file with these rows. It has been read as such before it is returned.

    Raises:
        ConfigError: the dates contradict one another.
    """
    head = [
        f"# Rows of a {dating.catalogue}, written by gpuledger bill prices import. Nothing reads this file by itself:",
        "# look the rows over, and put those that are paid into the site's price file.",
        'currency = "USD"',
    ]
    text = "\n".join([*head, *(line for offer, others in chosen for line in _row(offer, others, dating))]) + "\n"
    price_books("the rows", text.encode(), ())
    return text


def _row(offer: Offer, others: int, dating: Dating) -> list[str]:
    also = f" (and {others} more at this price)" if others else ""
    price = f"{offer.told} an hour for {offer.gpus} GPUs" if offer.gpus > 1 else f"{offer.told} an hour"
    source = f"{dating.catalogue} {dating.version}: {dating.provider} {offer.instance_type}{also}, {price}"
    until = [f"until = {dating.ends.isoformat()}"] if dating.ends else []
    group = [f"node_group = {_quoted(dating.node_group)}"] if dating.node_group else []
    return [
        "",
        "[[price]]",
        f"sku = {_quoted(offer.sku)}",
        f"purchase_option = {_quoted(offer.purchase_option)}",
        f"provider = {_quoted(dating.provider)}",
        f"region = {_quoted(offer.zone if offer.purchase_option == 'spot' and offer.zone else offer.region)}",
        *group,
        f"usd_per_gpu_hour = {dollars(offer.micros_per_gpu_hour).replace(',', '')}",
        f"from = {dating.starts.isoformat()}",
        *until,
        f"source = {_quoted(source)}",
        f"as_of = {dating.as_of.isoformat()}",
    ]


def _quoted(text: str) -> str:
    """Return a TOML string; JSON writes the same, but for DEL, which no name here has."""
    return json.dumps(text, ensure_ascii=False)
