"""Every route and the right it needs, in one table. What is not in it needs the right to change everything.

tests/access walks the routes of the whole server and its OpenAPI document, and fails where one is missing here.
"""

from dataclasses import dataclass
from functools import lru_cache
from re import Pattern
from typing import Final

from starlette.routing import compile_path

from collector.registry.roles import Right


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route, as the application declares it. `by_team`: it shows a team's key what is that team's, and no more."""

    method: str
    path: str
    right: Right
    by_team: bool = False


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", "/healthz", Right.OPEN),
    Endpoint("GET", "/readyz", Right.OPEN),
    Endpoint("POST", "/v1/enrol", Right.OPEN),  # it asks for a join token itself
    # Whoever has the link of a mail may stop that mail, without a key; the GET changes nothing (analyzer/mail).
    Endpoint("GET", "/mail/stop/{token}", Right.OPEN),
    Endpoint("POST", "/mail/stop/{token}", Right.OPEN),
    # The page that asks for a key, and what it looks like; it tells nothing of the site (dashboards/server/login.py).
    Endpoint("GET", "/login", Right.OPEN),
    Endpoint("POST", "/login", Right.OPEN),
    Endpoint("GET", "/static/{name}", Right.OPEN),
    Endpoint("POST", "/logout", Right.LEARN, by_team=True),
    Endpoint("GET", "/v1/schema", Right.LEARN, by_team=True),
    Endpoint("GET", "/v1/openapi.json", Right.LEARN, by_team=True),
    Endpoint("POST", "/v1/batches", Right.BATCHES),
    Endpoint("POST", "/api/v1/write", Right.REMOTE_WRITE),
    Endpoint("GET", "/metrics", Right.READ),
    Endpoint("GET", "/v1/doctor", Right.READ),
    Endpoint("GET", "/v1/backup", Right.CHANGE),
    Endpoint("POST", "/v1/backup", Right.CHANGE),
    Endpoint("GET", "/v1/prices", Right.READ),
    Endpoint("PUT", "/v1/prices", Right.CHANGE),
    # The API shows a team's key that team's runs alone, and sums no others (analyzer/interfaces/api/scope.py).
    Endpoint("GET", "/v1/runs", Right.READ, by_team=True),
    Endpoint("GET", "/v1/runs/{run_id:path}/series", Right.READ, by_team=True),
    Endpoint("GET", "/v1/runs/{run_id:path}/profile", Right.READ, by_team=True),
    Endpoint("GET", "/v1/runs/{run_id:path}/traffic", Right.READ, by_team=True),
    Endpoint("GET", "/v1/runs/{run_id:path}", Right.READ, by_team=True),
    Endpoint("GET", "/v1/profiles", Right.READ, by_team=True),
    Endpoint("GET", "/v1/ledger", Right.READ, by_team=True),
    Endpoint("GET", "/v1/costs", Right.READ, by_team=True),
    Endpoint("GET", "/v1/findings", Right.READ, by_team=True),
    Endpoint("GET", "/v1/findings/{finding_id}", Right.READ, by_team=True),
    Endpoint("POST", "/v1/findings/{finding_id}/judgement", Right.JUDGE, by_team=True),
    Endpoint("POST", "/v1/findings/{finding_id}/mute", Right.JUDGE, by_team=True),
    Endpoint("GET", "/v1/recommendations", Right.READ, by_team=True),
    Endpoint("GET", "/v1/recommendations/{advice_id}", Right.READ, by_team=True),
    Endpoint("POST", "/v1/recommendations/{advice_id}/acceptance", Right.JUDGE, by_team=True),
    Endpoint("POST", "/v1/recommendations/{advice_id}/rejection", Right.JUDGE, by_team=True),
    Endpoint("GET", "/v1/savings", Right.READ, by_team=True),
    Endpoint("GET", "/v1/notices", Right.READ, by_team=True),
    Endpoint("GET", "/v1/adjustments", Right.READ, by_team=True),
    Endpoint("GET", "/v1/hours", Right.READ, by_team=True),
    Endpoint("GET", "/v1/topology", Right.READ, by_team=True),  # what stands where is of no team; no figure is in it
    Endpoint("GET", "/v1/plan/history", Right.READ, by_team=True),
    Endpoint("GET", "/v1/plan/nodes", Right.READ),  # what others hold and the fleet has free
    Endpoint("GET", "/v1/sizing", Right.READ),  # the site's prices, and everybody's runs
    Endpoint("GET", "/v1/invoices", Right.READ),
    Endpoint("POST", "/v1/invoices", Right.RECONCILE),
    # What the fleet has free is in it: of the whole site, never of one team's key.
    Endpoint("GET", "/v1/capacity-profile", Right.READ),
    Endpoint("GET", "/v1/capacity-requests", Right.READ, by_team=True),
    Endpoint("POST", "/v1/capacity-requests", Right.ASK, by_team=True),
    Endpoint("GET", "/v1/capacity-requests/{request_id}", Right.READ, by_team=True),
    Endpoint("POST", "/v1/capacity-requests/{request_id}/waivers", Right.APPROVE, by_team=True),
    # Those that can be of a team; the others are refused to its key (analyzer/interfaces/reports/part_reader.py).
    Endpoint("GET", "/v1/read", Right.READ, by_team=True),
    # These pages are read through the API's door, and show a team's key what is that team's.
    Endpoint("GET", "/money", Right.READ, by_team=True),
    Endpoint("GET", "/money/{sheet}", Right.READ, by_team=True),
    Endpoint("GET", "/placement", Right.READ, by_team=True),
    Endpoint("GET", "/placement/{sheet}", Right.READ, by_team=True),
    Endpoint("POST", "/placement/changes/{advice_id}", Right.JUDGE, by_team=True),
    Endpoint("GET", "/requests", Right.READ, by_team=True),
    Endpoint("GET", "/requests/{request_id}", Right.READ, by_team=True),
    Endpoint("POST", "/requests/{request_id}/waivers", Right.APPROVE, by_team=True),
    # These pages show the whole site.
    Endpoint("GET", "/health", Right.READ),
    Endpoint("GET", "/health/rules", Right.READ),
    Endpoint("GET", "/health/{sheet}", Right.READ),
    Endpoint("GET", "/", Right.READ),
    Endpoint("GET", "/parts/{name}", Right.READ),
    Endpoint("GET", "/runs/{run_id:path}/timeline", Right.READ),
    Endpoint("GET", "/runs/{run_id:path}/parts/{name}", Right.READ),
    Endpoint("GET", "/runs/{run_id:path}", Right.READ),
    Endpoint("GET", "/findings/{finding_id}", Right.READ),
)
UNKNOWN: Final = Endpoint("*", "(unknown)", Right.CHANGE)


def endpoint_of(method: str, path: str) -> Endpoint:
    """Return the route that a request is for, with the matching of the router itself; UNKNOWN where there is none."""
    wanted = "GET" if method == "HEAD" else method
    plain, patterns = _sorted()
    found = plain.get((wanted, path))
    if found is not None:
        return found
    return next((one for pattern, one in patterns if one.method == wanted and pattern.match(path)), UNKNOWN)


@lru_cache(maxsize=1)
def _sorted() -> tuple[dict[tuple[str, str], Endpoint], list[tuple[Pattern[str], Endpoint]]]:
    """Return the routes without parameters, of which agents ask thousands a second, and the patterns of the others."""
    plain = {(one.method, one.path): one for one in ENDPOINTS if "{" not in one.path}
    return plain, [(compile_path(one.path)[0], one) for one in ENDPOINTS if "{" in one.path]
