"""How we reach others over TLS: whom we believe, and that nothing older than 1.2 is spoken."""

import ssl
from pathlib import Path

# 1.0 and 1.1 are broken (RFC 8996), and Debian's Python leaves the choice to a file in /etc.
OLDEST = ssl.TLSVersion.TLSv1_2


def trusting(authority: Path | str | None) -> ssl.SSLContext:
    """Return a context for a client that believes this authority, or those of the system where it is None.

    Raises:
        OSError: the file cannot be read, or holds no certificate.
    """
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = OLDEST
    return context
