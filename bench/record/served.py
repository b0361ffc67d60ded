"""The questions to a server: every read path of /v1 with the demo's ids, every page and sheet that a page links to."""

import html
import re
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import httpx

PAGES = 400  # a site of the demo has about a hundred; more is a circle of links
WEEK = "2026-W46"
_LINK = re.compile(r'(?:href|hx-get|data-url|data-csv|data-src|src)="([^"#]+)')
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
    """Yield every page, sheet and file that can be reached by links from the seeds, each once, by name."""
    waiting, seen = sorted(seeds), set(seeds)
    while waiting:
        path = waiting.pop(0)
        answer = client.get(path)
        yield path, answer
        if "html" not in answer.headers.get("content-type", ""):
            continue
        for link in sorted({html.unescape(one) for one in _LINK.findall(answer.text)}):
            where = urlsplit(urljoin(str(client.base_url.join(path)), link))
            target = where.path + (f"?{where.query}" if where.query else "")
            if where.netloc == client.base_url.netloc.decode() and target not in seen and len(seen) < PAGES:
                seen.add(target)
                waiting.append(target)
