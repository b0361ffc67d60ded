"""Addresses of the web that settings name."""

import re
from urllib.parse import urlsplit

from analyzer.errors import ConfigError

_PLAIN = re.compile(r"[A-Za-z0-9._~/:@%?&=+\[\]-]+")


def web_address(setting: str, text: str, *, is_base: bool = True) -> str:
    """Return an http address as it is used; of a base, to which paths are added, without the slash at its end.

    Raises:
        ConfigError: it is none, or a base has a query; the sentence begins with the setting's name.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{setting} is {text!r}: {error}") from error
    is_whole = parts.scheme in ("http", "https") and host and port != 0 and _PLAIN.fullmatch(text)
    if not is_whole or (is_base and parts.query):
        raise ConfigError(f"{setting} is {text!r}: no address like https://gpuledger.example")
    return text.rstrip("/") if is_base else text


def proxy_address(setting: str, text: str, url: str) -> str:
    """Return the address of a proxy through which an address of https is reached; nothing of what we say is read there.

    Raises:
        ConfigError: it is none, bears a password, or the address behind it is not of https.
    """
    proxy = web_address(setting, text)
    if not proxy.startswith("http://") or "@" in proxy or urlsplit(proxy).path:
        raise ConfigError(f"{setting} is {text!r}: no address like http://proxy.example:3128, without a password")
    if not url.startswith("https://"):
        raise ConfigError(f"{setting} is for addresses of https alone: it would read what else we say")
    return proxy
