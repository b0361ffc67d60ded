"""When a certificate ends. The standard library reads no certificate of our own, so its dates are read here (X.509)."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

_SEQUENCE, _VERSION, _UTC_TIME, _GENERAL_TIME = 0x30, 0xA0, 0x17, 0x18


def ends_at(pem: str) -> int:
    """Return the last moment of the first certificate of a PEM file, in microseconds UTC.

    Raises:
        ValueError: it is no certificate.
    """
    try:
        begin = pem.index("-----BEGIN CERTIFICATE-----")
        end = pem.index("-----END CERTIFICATE-----", begin) + len("-----END CERTIFICATE-----")
        der = ssl.PEM_cert_to_DER_cert(pem[begin:end])
        (_, certificate), *_ = _parts(der)
        (_, signed), *_ = _parts(certificate)
        fields = [part for part in _parts(signed) if part[0] != _VERSION]
        _, (kind, until) = list(_parts(fields[3][1]))  # serial, algorithm, issuer, validity
        return _moment(kind, until.decode("ascii"))
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("it is no X.509 certificate") from error


def _moment(kind: int, text: str) -> int:
    if kind not in (_UTC_TIME, _GENERAL_TIME):
        raise ValueError("its dates are in no form of X.509")
    full = text if kind == _GENERAL_TIME else ("19" if int(text[:2]) >= 50 else "20") + text  # RFC 5280, 4.1.2.5.1
    return round(datetime.strptime(full, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1_000_000)


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of what follows one another; lengths beyond the data end it."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:
            width = length & 0x7F
            length, at = int.from_bytes(der[at : at + width]), at + width
        yield tag, der[at : at + length]
        at += length
