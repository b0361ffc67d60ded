"""The link that stops a mail: a token bound to one address of one list, that nobody can guess or move to another.

It is <id>.<mac>. The id is a hash, so that no address stands in a log; the mac is an HMAC-SHA-256 over list and
address with a secret of the site. Whoever has the link may stop this one mail, and nothing else.
"""

import hashlib
import hmac
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.registry import Mails, Subscription

_ID_LETTERS = 20  # of a hash in hex: 80 bits, that no two addresses of a site share
_LONGEST = 200
_NO_KEY = b"\0" * 32  # where no mail was ever made; no token fits it, for no subscription is known


def subscription_id(list_name: str, address: str) -> str:
    """Return the id of an address of a list; the domain's case does not matter to mail, and the rest is as written."""
    local, _, domain = address.rpartition("@")
    return hashlib.sha256(f"{list_name}\0{local}@{domain.lower()}".encode()).hexdigest()[:_ID_LETTERS]


def stop_token(key: bytes, list_name: str, address: str) -> str:
    """Return the token for the link in the mail to this address."""
    return f"{subscription_id(list_name, address)}.{_mac(key, list_name, address)}"


def stop_url(site_url: str, token: str) -> str:
    """Return the link."""
    return f"{site_url}/mail/stop/{token}"


def known_subscription(mails: "Mails", token: str) -> "Subscription | None":
    """Return whose token it is, or None; the comparison takes as long whatever is wrong with it.

    Raises:
        RegistryError: the registry does not answer.
    """
    if len(token) > _LONGEST or not token.isascii():
        return None
    found_id, _, mac = token.partition(".")
    found, key = mails.subscription(found_id), mails.known_key()
    wanted = _mac(key or _NO_KEY, found.list if found else "", found.address if found else "")
    return found if hmac.compare_digest(mac, wanted) and key is not None else None


def stop(mails: "Mails", token: str, by: str = "its reader") -> "Subscription | None":
    """Stop the mail that a token is of, and return whose it was; None where it is nobody's.

    Raises:
        RegistryError: the registry does not answer.
    """
    found = known_subscription(mails, token)
    if found is not None:
        mails.stop(found.id, time.time_ns() // 1000, by)
    return found


def masked(address: str) -> str:
    """Return an address so that its owner knows it, and nobody learns it: "g...@example.com"."""
    local, _, domain = address.rpartition("@")
    return f"{local[:1]}...@{domain}"


def _mac(key: bytes, list_name: str, address: str) -> str:
    return hmac.new(key, f"stop\0{list_name}\0{address}".encode(), hashlib.sha256).hexdigest()
