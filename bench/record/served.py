"""The questions to a server: every read path of /v1 with the demo's ids, every page and sheet that a page links to."""

import html
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import httpx

EACH = 12  # pages of one kind: of so many runs, findings and hosts
WEEK = "2026-W46"
UNDOCUMENTED = (  # what Prometheus, balancers and agents ask
    ("GET", "/metrics"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("POST", "/v1/batches"),
    ("POST", "/v1/enrol"),
    ("POST", "/api/v1/write"),
)
_LINK = re.compile(r'(?:href|hx-get|data-url|data-csv|data-src|src)="([^"#]+)')
_ID = re.compile(r"/[fr]-\w+|(?<=/runs)(/[^/?]+){3}")  # of a finding, a recommendation, a run
_NAMED = {
    "/v1/read": [f"?what={what}&since={WEEK}&format=json" for what in ("week", "findings", "recommend", "savings")]
}


def paths(spec: dict[str, dict[str, dict[str, object]]], ids: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (method, path) of everything in the OpenAPI document. `ids` fill what stands in braces."""
    for path, methods in spec["paths"].items():
        filled = re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], path)
        for method in sorted(methods):
            for query in _NAMED.get(path, [""]):
                yield method.upper(), filled + query
            if method == "get" and path in ("/v1/ledger", "/v1/costs"):
                yield "GET", f"{filled}?by=team&since={WEEK}"


def crawled(client: httpx.Client, seeds: list[str]) -> Iterator[tuple[str, httpx.Response]]:
    """Yield the pages, sheets and files that can be reached by links from the seeds, each once, a dozen of a kind."""
    waiting, seen, kinds = sorted(seeds), set(seeds), Counter[str]()
    while waiting:
        path = waiting.pop(0)
        answer = client.get(path)
        yield path, answer
        if "html" not in answer.headers.get("content-type", ""):
            continue
        for link in sorted({html.unescape(one) for one in _LINK.findall(answer.text)}):
            where = urlsplit(urljoin(str(client.base_url.join(path)), link))
            target = where.path + (f"?{where.query}" if where.query else "")
            kind = _ID.sub("/ID", re.sub(r"=[^&]*", "", target))
            if where.netloc == client.base_url.netloc.decode() and target not in seen and kinds[kind] < EACH:
                kinds[kind] += 1
                seen.add(target)
                waiting.append(target)
