"""What opens the door, and for how long: the certificate, and keys that end soon."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from agent.wire.units import DAY_SECONDS, SECOND_US, WEEK_SECONDS
from analyzer.interfaces.doctor.sight import CheckLine, Section, Sight, count, length_words, minute_words, some

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
        raise ValueError("it is not an X.509 certificate") from error


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


_BAD_SECONDS, _NOTE_SECONDS = WEEK_SECONDS, 30 * DAY_SECONDS


def access(sight: Sight) -> Section:
    """Return the lines on keys and certificates."""
    return Section("ACCESS", (*_certificate(sight), *_keys(sight)))


def _certificate(sight: Sight) -> Iterator[CheckLine]:
    file = sight.config.tls_certificate
    if not file:
        yield CheckLine("ok", "no certificate is set: whatever is before the server has its own")
        return
    shown = sight.live.certificate if sight.live is not None else None  # what lies on the disk may not be it
    try:
        left = (ends_at(shown or Path(file).read_text()) - sight.now_us) / SECOND_US
    except (OSError, ValueError) as error:
        yield CheckLine("unseen", f"the certificate {file}: {getattr(error, 'strerror', None) or error}")
        return
    if left <= 0:
        yield CheckLine(
            "bad",
            f"the certificate ended {length_words(-left)} ago",
            "renew it: within seconds it is served, or the log says why not",
        )
        return
    soon = left < _BAD_SECONDS
    answer = CheckLine("ok", f"the certificate is good for {length_words(left)}")
    if left < _NOTE_SECONDS:
        answer = CheckLine(
            "bad" if soon else "note",
            f"the certificate ends in {length_words(left)}",
            "renew it: within seconds it is served, or the log says why not",
        )
    yield answer


def _keys(sight: Sight) -> Iterator[CheckLine]:
    if sight.registry_error is not None:
        yield CheckLine(
            "bad", sight.registry_error, "where it is damaged, put back that of a backup (gpuledger admin restore)"
        )
        return
    if sight.keys is None:
        yield CheckLine("unseen", "keys: the registry was not reached from here", "use --server URL")
        return
    live = [key for key in sight.keys if key.live(sight.now_us)]
    ending = [key for key in live if key.expires_at and key.expires_at - sight.now_us < _BAD_SECONDS * SECOND_US]
    if not ending:
        yield CheckLine("ok", f"{count(len(live), 'key')} open; none ends within {length_words(_BAD_SECONDS)}")
        return
    named = some([f"{key.name or key.id} {minute_words(key.expires_at or 0)}" for key in ending])
    yield CheckLine(
        "note", f"{count(len(ending), 'key')} of {len(live):,} end soon: {named}", "gpuledger admin access rotate KEY"
    )
