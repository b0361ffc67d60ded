"""How many GPUs of a kind hold a model with room to spare, spread how; and of those that do not, why.

Room is what stays free: a tenth at least, and under a fifth it is tight (what-users-ask: HBM headroom 10-20%). It
holds what no formula counts: gaps of the allocator, longer batches, what a driver keeps of the size in a SKU's name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from agent.wire.units import GIB, PERMILLE
from analyzer.errors import ConfigError
from analyzer.prices.list_prices import list_prices
from analyzer.prices.price_book import PriceBook
from analyzer.sizing.memory import Memory, memory
from analyzer.sizing.model import Model
from analyzer.sizing.work import NAMED_MEMORY, Sharding, Work, ability, sharding_of, splits
from analyzer.text.as_json import WHOLE
from analyzer.text.words import gib
from collector.store.session import Session

_LIST_CURRENCY = "USD"
# What the fleet has in the ledger's newest hour: GPUs in all, the most on one host, the memory that drivers report.
_OWNED = """
    WITH owned AS (
        SELECT DISTINCT sku, node, gpu_uuid FROM ledger
        WHERE hour = (SELECT max(hour) FROM ledger) AND sku IS NOT NULL
    ), told AS (
        SELECT gpu_uuid, min(memory_bytes) AS memory_bytes FROM inventory
        WHERE gpu_uuid IS NOT NULL AND parent_uuid IS NULL GROUP BY gpu_uuid
    ), hosts AS (
        SELECT sku, node, count(*) AS gpus, min(memory_bytes) AS memory_bytes
        FROM owned LEFT JOIN told USING (gpu_uuid) GROUP BY sku, node
    )
    SELECT sku, sum(gpus)::BIGINT, max(gpus)::BIGINT, min(memory_bytes)::BIGINT FROM hosts GROUP BY sku ORDER BY sku
"""


@dataclass(frozen=True, slots=True)
class Owned:
    """What a fleet has of a kind. `memory_bytes` as the driver reports it, None where nobody told."""

    gpus: int
    gpus_a_node: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class HourlyRate:
    """What a GPU-hour costs, in millionths: by the site's price file, or by one provider's list price on demand."""

    micros_per_gpu_hour: int
    source: Literal["site", "list"]
    option: str | None


@dataclass(frozen=True, slots=True)
class ListOffer:
    """What one provider asks on demand for a GPU-hour of an instance of so many GPUs, in millionths."""

    provider: str
    region: str
    instance_type: str
    gpus: int
    micros_per_gpu_hour: int


@dataclass(frozen=True, slots=True)
class GpuKind:
    """One kind of GPU. Without an inventory its memory is the size in its name, of which the driver keeps some.

    `offers` are list prices, the lowest first, of a kind that the site's file has no price for; `rate` is then the
    lowest.
    """

    __pydantic_config__ = WHOLE
    sku: str
    memory_bytes: Annotated[int | None, Field(description="Of one GPU, as its driver reports it; else by the name.")]
    gpus_a_node: int
    rate: HourlyRate | None
    owned_gpus: int | None  # None: no fleet was asked
    offers: tuple[ListOffer, ...] = ()

    def offer(self, gpus: int) -> ListOffer | None:
        """Return the offer of which whole instances cost least, of those with as many GPUs on a host as a node has.

        Fewer GPUs than that need a host with so many.
        """
        able = [one for one in self.offers if one.gpus >= min(gpus, self.gpus_a_node)]
        return min(able, key=lambda one: -(-gpus // one.gpus) * one.gpus * one.micros_per_gpu_hour, default=None)


def read_owned(session: Session) -> dict[str, Owned]:
    """Return what the fleet has, by SKU."""
    return {sku: Owned(*rest) for sku, *rest in session.rows(_OWNED)}


def kinds(book: PriceBook, now_us: int, fleet: Mapping[str, Owned] | None = None) -> list[GpuKind]:
    """Return every kind that the fleet, the price file or the list prices name, by SKU; `fleet` None: none is known."""
    listed = {row.sku: 0 for row in list_prices()}
    for row in list_prices():
        listed[row.sku] = max(listed[row.sku], row.gpus)
    priced = {row.subject[0] for row in (*book.rows, *book.derived)} - {None}
    names = {*listed, *(fleet or {}), *(sku for sku in priced if sku is not None)}
    found = []
    for sku in sorted(names):
        owned = (fleet or {}).get(sku)
        told = owned.memory_bytes if owned and owned.memory_bytes else named_bytes(sku)
        on_node = owned.gpus_a_node if owned else listed.get(sku, 1)
        rate = site_rate(book, sku, now_us, is_owned=owned is not None)
        offers = list_offers(sku) if rate is None and book.currency == _LIST_CURRENCY else ()
        if offers:
            rate = HourlyRate(offers[0].micros_per_gpu_hour, "list", "on_demand")
        owned_gpus = None if fleet is None else (owned.gpus if owned else 0)
        found.append(GpuKind(sku, told, on_node, rate, owned_gpus, offers))
    return found


def named_bytes(sku: str) -> int | None:
    """Return the memory that a SKU's name says, in bytes: 80 GiB of an H100-80GB; None where it says none."""
    match = NAMED_MEMORY.search(sku)
    return int(match[1]) * GIB if match else None


def site_rate(book: PriceBook, sku: str, now_us: int, *, is_owned: bool) -> HourlyRate | None:
    """Return the lowest price of a SKU that the site's file has now. A row for any GPU is for GPUs that it has."""
    wanted = (sku, None) if is_owned else (sku,)
    rows = [row for row in (*book.rows, *book.derived) if row.subject[0] in wanted and row.covers(now_us)]
    # What names the SKU goes before what is for any.
    rows = [row for row in rows if row.subject[0] == sku] or rows
    found = [(micros, row.purchase_option) for row in rows if (micros := row.micros_at(now_us)) is not None]
    if not found:
        return None
    micros, option = min(found, key=lambda one: (one[0], one[1] or ""))
    return HourlyRate(micros, "site", option)


def list_offers(sku: str) -> tuple[ListOffer, ...]:
    """Return what providers ask for a SKU on demand, the lowest first and of equals the smallest instance."""
    offers = [
        ListOffer(row.provider, row.region, row.instance_type, row.gpus, row.micros_per_gpu_hour)
        for row in list_prices()
        if row.sku == sku and row.purchase_option == "on_demand" and row.objection is None
    ]
    return tuple(sorted(offers, key=lambda one: (one.micros_per_gpu_hour, one.gpus, one.provider, one.region)))


LEAST_ROOM_PERMILLE, _GOOD_ROOM_PERMILLE = 100, 200
_MOST_NODES = 32  # where the search ends
_LEAST_JOINED_GPUS = 4  # ours: on hosts of fewer no model is spread over several, whose links nobody told


@dataclass(frozen=True, slots=True)
class Fit:
    """So many GPUs of a kind that hold the model, and what each of them holds."""

    kind: GpuKind
    memory: Memory
    note: str | None = None

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.memory.sharding.gpus

    @property
    def offer(self) -> ListOffer | None:
        """Return the list price that it is told at; None where it has the site's price, or nobody lists it."""
        return self.kind.offer(self.gpus)

    @property
    def rate(self) -> HourlyRate | None:
        """What a GPU-hour costs: the site's price, else the cheapest list price of hosts that could run it."""
        if not self.kind.offers:
            return self.kind.rate
        return None if self.offer is None else HourlyRate(self.offer.micros_per_gpu_hour, "list", "on_demand")

    @property
    def gpus_a_node(self) -> int:
        """GPUs on a node: of the fleet's own, else of the instance that the price is of."""
        return self.kind.gpus_a_node if self.offer is None or self.kind.owned_gpus else self.offer.gpus

    @property
    def nodes(self) -> int:
        """Whole nodes that they are on."""
        return -(-self.gpus // self.gpus_a_node)

    @property
    def room_permille(self) -> int:
        """How much of each GPU's memory stays free."""
        return room_permille(self.memory.total_bytes, self.kind)

    @property
    def is_tight(self) -> bool:
        """Whether there is less room than is good."""
        return self.room_permille < _GOOD_ROOM_PERMILLE

    @property
    def micros_per_hour(self) -> int | None:
        """What these GPUs cost an hour; None without a price."""
        return None if self.rate is None else self.gpus * self.rate.micros_per_gpu_hour

    @property
    def node_micros_per_hour(self) -> int | None:
        """What the whole nodes cost that they are on: what is paid where GPUs are not had singly."""
        return None if self.rate is None else self.nodes * self.gpus_a_node * self.rate.micros_per_gpu_hour


@dataclass(frozen=True, slots=True)
class Misfit:
    """A kind of GPU that does not hold the model, and why."""

    kind: GpuKind
    why: str


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What somebody wants of it: so many GPUs, spread so. None: whatever fits."""

    gpus: int | None = None
    sharding: str | None = None


def room_permille(used_bytes: int, kind: GpuKind) -> int:
    """Return how much of a GPU's memory stays free, in thousandths; negative where it is too little."""
    return PERMILLE - -(-used_bytes * PERMILLE // kind.memory_bytes) if kind.memory_bytes else -PERMILLE


def holds(used_bytes: int, kind: GpuKind) -> bool:
    """Say whether a GPU holds so much and keeps the least room."""
    return room_permille(used_bytes, kind) >= LEAST_ROOM_PERMILLE


def fitting_offers(
    model: Model, work: Work, candidates: Sequence[GpuKind], asked: GpuRequest | None = None
) -> tuple[list[Fit], list[Misfit]]:
    """Return what fits, the cheapest first and what has no price last; and what does not, by SKU.

    Raises:
        ConfigError: what was asked for divides neither the GPUs nor the model.
    """
    wish = asked or GpuRequest()
    found = [_of_kind(model, work, kind, wish) for kind in candidates]
    fits = [one for one in found if isinstance(one, Fit)]
    fits.sort(key=lambda fit: (fit.micros_per_hour is None, fit.micros_per_hour, fit.kind.sku))
    return fits, [one for one in found if isinstance(one, Misfit)]


def _of_kind(model: Model, work: Work, kind: GpuKind, asked: GpuRequest) -> Fit | Misfit:
    if kind.memory_bytes is None:
        return Misfit(kind, "how much memory it has is not known")
    able = ability(kind.sku, work)
    if able.is_able is False:
        return Misfit(kind, able.told or "")
    best: Memory | None = None
    counts = (asked.gpus,) if asked.gpus is not None else gpu_counts(kind.gpus_a_node)
    for gpus in counts:
        for sharding in _ways(model, work, kind, gpus, asked):
            needed = memory(model, work, sharding)
            if holds(needed.total_bytes, kind):
                hosts = -(-gpus // kind.gpus_a_node)
                if hosts > 1 and kind.gpus_a_node < _LEAST_JOINED_GPUS and asked.sharding is None:
                    return Misfit(kind, _apart(gpus, hosts))
                if able.is_able is None:
                    return Misfit(kind, able.told or "")
                return Fit(kind, needed, able.told)
            if best is None or needed.total_bytes < best.total_bytes:
                best = needed
    if best is None:
        way = asked.sharding or f"any way over {asked.gpus}"
        return Misfit(kind, f"{way} divides neither the model nor these GPUs within their nodes")
    each = "it" if best.sharding.gpus == 1 else f"each of {best.sharding.gpus} ({best.sharding.told})"
    return Misfit(kind, f"{each} would hold {gib(best.total_bytes)}, and leave less than a tenth free")


def _apart(gpus: int, hosts: int) -> str:
    return (
        f"{gpus} would hold it, on {hosts} hosts of {-(-gpus // hosts)}: it is not known that such hosts have links "
        "that a model can be spread over; where yours have, use --sharding"
    )


def gpu_counts(gpus_a_node: int) -> Iterator[int]:
    """Yield how many GPUs are tried: powers of two within a node, then whole nodes."""
    count = 1
    while count < gpus_a_node:
        yield count
        count *= 2
    for nodes in range(1, _MOST_NODES + 1):
        yield nodes * gpus_a_node


def _ways(model: Model, work: Work, kind: GpuKind, gpus: int, asked: GpuRequest) -> Iterator[Sharding]:
    """Yield the ways to spread a model over GPUs that its shape allows, the least intrusive first.

    Raises:
        ConfigError: somebody named both the way and the GPUs, and they do not go together.
    """
    if asked.sharding is not None:
        try:
            said = sharding_of(asked.sharding, gpus)
        except ConfigError:
            if asked.gpus is not None:
                raise
            return
        if (why := splits(said, model.shape)) is not None:
            if asked.gpus is not None:
                raise ConfigError(f"--sharding {asked.sharding} over {gpus} GPUs does not divide {model.name}: {why}")
            return
        if said.tensor <= kind.gpus_a_node:
            yield said
        return
    for way in usual_ways(work, gpus, kind.gpus_a_node):
        if splits(way, model.shape) is None:
            yield way


def usual_ways(work: Work, gpus: int, gpus_a_node: int) -> Iterator[Sharding]:
    """Yield how so many GPUs are usually used: what changes least comes first.

    Matrices are split within a node alone: each layer waits for that exchange.
    """
    if gpus == 1:
        yield Sharding()
        return
    within = min(gpus, gpus_a_node)
    if work.is_training:
        for stage in (1, 2, 3) if work.purpose == "full" else (3,):
            yield Sharding(stage, data=gpus)
        # Of quantised weights no trainer splits the matrices; FSDP shards them (QLoRA).
        if work.purpose != "qlora" and gpus % within == 0 and within > 1:
            yield Sharding(1, data=gpus // within, tensor=within)
            yield Sharding(3, data=gpus // within, tensor=within)
        return
    while within > 0:  # half as many each time, for heads that a whole node does not divide
        if gpus % within == 0:
            yield Sharding(tensor=within, pipeline=gpus // within)
        within //= 2
