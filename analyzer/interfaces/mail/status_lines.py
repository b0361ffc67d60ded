"""What became of the site's mails, in lines for a terminal."""

from analyzer.text.words import counted, moment_words, plain_sentence
from collector.registry import Mails, Send

STOPPED_BY = "cli: an operator"
_SHOWN_US = 35 * 86_400_000_000  # five weeks
_LISTED = 40
_WORDS = {"queued": "waits", "sending": "is being sent", "sent": "sent", "failed": "refused", "dropped": "left out"}


def standing_lines(mails: Mails, now_us: int, timezone: str) -> tuple[list[str], bool]:
    """Return the lines, and whether all is well: nothing refused of the newest period that was mailed to anybody.

    Raises:
        RegistryError: the registry does not answer.
    """
    sends = mails.sends(now_us - _SHOWN_US)
    stopped = [one for one in mails.subscriptions() if one.stopped_at is not None]
    counts = {state: sum(one.state == state for one in sends) for state in _WORDS}
    said = [f"{count} {_WORDS[state]}" for state, count in counts.items() if count]
    lines = [f"mails of five weeks: {', '.join(said) or 'none'}; {counted(len(stopped), 'reader')} stopped it"]
    lines += [_line(one, timezone) for one in sends[:_LISTED]]
    lines += [f"  and {len(sends) - _LISTED} more"] if len(sends) > _LISTED else []
    for one in stopped:
        at = moment_words(one.stopped_at or 0, timezone)
        lines.append(f"  stopped   {one.address} ({one.list}), {at}, by {one.stopped_by}")
    newest = max((one.period for one in sends), default="")
    return lines, not any(one.state == "failed" and one.period == newest for one in sends)


def _line(one: Send, timezone: str) -> str:
    when = moment_words(one.done_at, timezone) if one.done_at else f"next try {moment_words(one.next_at, timezone)}"
    told = f": {plain_sentence(one.told)}" if one.told else ""
    return f"  {_WORDS[one.state]:<9} {one.period} {one.address} ({one.list}), {when}{told}"
