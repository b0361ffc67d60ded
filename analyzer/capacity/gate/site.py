"""What a site knows of a request: the price in its file, the GPUs that stood free, what the team did before."""

from collections.abc import Callable
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from agent.wire.units import DAY_MS, DAY_US
from analyzer.capacity.gate.decided import Rate
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.supply import FreeGpus, History, Names, Supply
from analyzer.errors import ConfigError
from analyzer.ledger.teams import team_book
from analyzer.period import micros
from analyzer.prices.price_book import price_book
from analyzer.settings.settings import Settings

if TYPE_CHECKING:
    from analyzer.capacity.gate.policy import Policy
    from collector.registry import Registry
    from collector.store.session import Session


# The last seven days whose every hour is in the ledger (a week has its quiet days and its busy ones), and the time in
# which nobody held a GPU of a kind that could be had.
_FREE = """
    WITH days AS (
        SELECT hour // 86400000000 AS day FROM ledger_hours GROUP BY day HAVING count(*) = 24 ORDER BY day DESC LIMIT 7
    ), free AS (
        SELECT hour // 86400000000 AS day, sum(milliseconds)::BIGINT AS milliseconds FROM ledger
        WHERE sku = ? AND state = 'unallocated' AND cause = 'free' GROUP BY day
    )
    SELECT day, coalesce(milliseconds, 0) FROM days LEFT JOIN free USING (day) ORDER BY 2, 1 DESC LIMIT 1
"""
_OWNED = "SELECT count(*) FROM ledger WHERE sku = ?"
_OPTION = """
    SELECT purchase_option FROM ownership WHERE sku = ? AND purchase_option IS NOT NULL
    GROUP BY purchase_option ORDER BY count(*) DESC, purchase_option LIMIT 1
"""
_TEAMS = "SELECT DISTINCT team FROM runs WHERE team IS NOT NULL"
_SKUS = """
    SELECT sku FROM (SELECT sku FROM ownership UNION SELECT sku FROM inventory) WHERE sku IS NOT NULL
"""
_HELD = """
    SELECT coalesce(sum(milliseconds), 0)::BIGINT FROM ledger WHERE hour >= ? AND run_id IN (
        SELECT run_id FROM runs WHERE team = ?
    )
"""


def supply_of(
    session: "Session",
    settings: Settings,
    registry: "Registry | None",
    request: Request,
    policy: "Policy",
    identity: str,
    now_us: int,
    sees: Callable[[str], bool] = lambda _: True,
) -> Supply:
    """Return what the ledger, the price file and the registry say; `identity` is the id of the request itself.

    `sees` says of a team whether whoever asks may read its name.
    """
    return Supply(
        free=_free_of(session, request.sku),
        rate=_rate_of(session, settings, request),
        history=_history_of(session, registry, request, policy, identity, now_us),
        names=_names_of(session, settings, sees),
    )


def _names_of(session: "Session", settings: Settings, sees: Callable[[str], bool]) -> Names:
    """Return the teams and the kinds of GPU that this site knows."""
    ruled = {rule.team.name for rule in team_book(settings).rules}
    teams = frozenset(ruled | {team for (team,) in session.rows(_TEAMS)})
    book = price_book(settings)
    priced = {row.subject[0] for row in (*book.rows, *book.derived)}
    skus = {sku for sku in priced if sku is not None} | {sku for (sku,) in session.rows(_SKUS)}
    return Names(teams, frozenset(filter(sees, teams)), frozenset(skus), settings.timezone)


def _free_of(session: "Session", sku: str) -> FreeGpus | None:
    """Return the GPUs of a kind that were free on the day with the fewest, None where the ledger has no such kind."""
    if not session.row(_OWNED, [sku])[0]:
        return None
    rows = session.rows(_FREE, [sku])
    if not rows:
        return None
    day, milliseconds = rows[0]
    return FreeGpus(milliseconds // DAY_MS, datetime.fromtimestamp(day * DAY_US // 1_000_000, UTC).date().isoformat())


def _rate_of(session: "Session", settings: Settings, request: Request) -> Rate | None:
    """Return the price of the first day; of the purchase option that is asked for, else of the one that most have."""
    option = request.purchase_option
    if option is None:
        owned = session.rows(_OPTION, [request.sku])
        option = owned[0][0] if owned else None
    starts = datetime.combine(datetime.fromisoformat(request.starts), time(), tzinfo=ZoneInfo(settings.timezone))
    price = price_book(settings).price(request.sku, option, micros(starts))
    if price is None:
        return None
    return Rate(price.micros_per_gpu_hour, price.option or price.source, settings.currency)


def _history_of(
    session: "Session", registry: "Registry | None", request: Request, policy: "Policy", identity: str, now_us: int
) -> History:
    """Return what the team held in the days that the policy looks back, and its earlier pilots.

    Raises:
        ConfigError: the site forgets requests before the policy has done looking back for them.
    """
    if registry is not None and registry.capacity.bounds.days < policy.pilot.within_days:
        raise ConfigError(
            f"the policy looks back {policy.pilot.within_days} days for pilots, and requests are kept for "
            f"{registry.capacity.bounds.days} (capacity_days): make that as many"
        )
    since = now_us - policy.pilot.within_days * DAY_US
    (milliseconds,) = session.row(_HELD, [since, request.team])
    pilots = None if registry is None else registry.capacity.pilots(request.team, since, identity)
    return History(milliseconds, pilots, f"the ledger, {policy.pilot.within_days} days", since)
