"""What opens the door, and for how long: the certificate, and keys that end soon."""

from collections.abc import Iterator
from pathlib import Path

from agent.wire.units import DAY_SECONDS, SECOND_US, WEEK_SECONDS
from analyzer.interfaces.doctor.certificate import ends_at
from analyzer.interfaces.doctor.line import CheckLine, Section
from analyzer.interfaces.doctor.sight import Sight
from analyzer.interfaces.doctor.words import count, length_words, minute_words, some

_BAD_SECONDS, _NOTE_SECONDS = WEEK_SECONDS, 30 * DAY_SECONDS


def access(sight: Sight) -> Section:
    """Return the lines on keys and certificates."""
    return Section("ACCESS", (*_certificate(sight), *_keys(sight)))


def _certificate(sight: Sight) -> Iterator[CheckLine]:
    file = sight.config.tls_certificate
    if not file:
        yield CheckLine("ok", "no certificate is set: whatever is before the server has its own")
        return
    try:
        left = (ends_at(Path(file).read_text()) - sight.now_us) / SECOND_US
    except (OSError, ValueError) as error:
        yield CheckLine("unseen", f"the certificate {file}: {getattr(error, 'strerror', None) or error}")
        return
    if left <= 0:
        yield CheckLine(
            "bad", f"the certificate ended {length_words(-left)} ago", "renew it, then systemctl reload gpuledger-serve"
        )
        return
    soon = left < _BAD_SECONDS
    answer = CheckLine("ok", f"the certificate is good for {length_words(left)}")
    if left < _NOTE_SECONDS:
        answer = CheckLine(
            "bad" if soon else "note", f"the certificate ends in {length_words(left)}", "renew it, then reload"
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
