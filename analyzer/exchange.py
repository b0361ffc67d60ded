"""How we speak HTTP to whom the settings name: TLS that is verified, no redirect, and no secret in a name."""

import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from collector.trust import trusting


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry what we say, with its key or signature, to somebody whom nobody named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - urllib's own arguments
        return None


def opener(url: str, authority: Path | None = None) -> urllib.request.OpenerDirector:
    """Return what opens this address, and believes this authority or those of the system.

    Raises:
        OSError: the file of the authority cannot be read, or holds no certificate.
    """
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if url.startswith("https://"):
        handlers.append(urllib.request.HTTPSHandler(context=trusting(authority)))
    return urllib.request.build_opener(*handlers)


def host_of(url: str) -> str:
    """Name a receiver without what its address may hold of a secret: user, path and query."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
