"""How amounts, times and names are written wherever a person reads; one spelling for terminal, page and e-mail."""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from agent.wire.units import GIB, HOUR_MS, MICROS, MINUTE_MS, PERMILLE
from analyzer.period import Period, local


def nearest(numerator: int, denominator: int) -> int:
    """Return numerator / denominator to the nearest integer, halves away from zero; exact at any size."""
    sign = -1 if numerator < 0 else 1
    return sign * ((2 * abs(numerator) + denominator) // (2 * denominator))


def large(number: int) -> str:
    """Return a count for a person: 903, 8.38 million."""
    for size, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number / size:.2f} {word}"
    return f"{number:,}"


def apportion(total: int, numerators: Sequence[int], denominator: int) -> list[int]:
    """Return one integer for each numerator / denominator, summing to `total` by largest remainder.

    `total` must be the exact sum rounded up or down, as `nearest` or a call for the level above gives it; each
    result is then its exact value rounded up or down. Ties go to the earlier.
    """
    floors = [numerator // denominator for numerator in numerators]
    missing = total - sum(floors)
    if not 0 <= missing <= len(floors):
        raise AssertionError(f"BUG: {total} is no rounding of {sum(numerators)}/{denominator}")
    by_remainder = sorted(range(len(floors)), key=lambda index: -(numerators[index] % denominator))
    for index in by_remainder[:missing]:
        floors[index] += 1
    return floors


def apportion_tree(total: int, groups: Sequence[Sequence[int]], denominator: int) -> tuple[list[int], list[list[int]]]:
    """Return the rounded groups, which sum to `total`, and the rounded members, which sum to their group."""
    sums = apportion(total, [sum(group) for group in groups], denominator)
    return sums, [apportion(rounded, group, denominator) for rounded, group in zip(sums, groups, strict=True)]


CENTS_UNDER = 10 * MICROS  # amounts below are told with their cents: 0 would say that nothing is there
_CENT_MICROS = 10_000
UNKNOWN = "-"
AT_LEAST = "≥"
NO_BREAK = "\u00a0"  # holds a figure and its unit on one line; text pages print it as a space
_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "KRW": "₩"}
# Their smallest unit is the whole one: ISO 4217, table A.1, minor unit 0.
_WITHOUT_CENTS = frozenset(
    (
        "BIF",
        "CLP",
        "DJF",
        "GNF",
        "ISK",
        "JPY",
        "KMF",
        "KRW",
        "PYG",
        "RWF",
        "UGX",
        "UYI",
        "VND",
        "VUV",
        "XAF",
        "XOF",
        "XPF",
    )
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NAME_MAX = 120  # a run's name comes from its user: bounded before it reaches a page


def decimal(units: int, decimals: int) -> str:
    """Return an integer of 10**-decimals as text: decimal(1128_0, 1) is "1,128.0"."""
    sign, whole = ("-" if units < 0 else ""), abs(units) // 10**decimals
    fraction = f".{abs(units) % 10**decimals:0{decimals}d}" if decimals else ""
    return f"{sign}{whole:,}{fraction}"


def signed(units: int, decimals: int) -> str:
    """Return a difference with its sign; nothing is "0.0", without one."""
    return decimal(units, decimals) if units <= 0 else f"+{decimal(units, decimals)}"


def symbol(currency: str) -> str:
    """Return the sign that stands before an amount: "$", or "CHF " where there is none."""
    return _SYMBOLS.get(currency, f"{currency} ")


def money(micros: int | None, currency: str, decimals: int = 2) -> str:
    """Return an amount with its currency; unknown is a dash, never 0."""
    if micros is None:
        return UNKNOWN
    return f"{'-' if micros < 0 else ''}{symbol(currency)}{amount(abs(micros), cents_of(currency, decimals))}"


def cents_of(currency: str, decimals: int = 2) -> int:
    """Return with how many decimals an amount is shown that other currencies show with so many: yen have no cents."""
    return 0 if currency in _WITHOUT_CENTS and decimals <= 2 else decimals


def amount(micros: int, decimals: int = 2) -> str:
    """Return an amount without its currency, for a column that names it."""
    return decimal(nearest(micros * 10**decimals, MICROS), decimals)


def at_least(told: str, is_part: bool) -> str:
    """Return an amount, marked where a part of the GPU time that it is of has no price: the same everywhere."""
    return f"{AT_LEAST}{told}" if is_part and told != UNKNOWN else told


def dollars(micros: int) -> str:
    """Return an amount with two decimals, or with as many as it has where cents would hide some: 2.60, 2.744705."""
    whole, rest = divmod(micros, MICROS)
    cents = f"{whole:,}.{rest // _CENT_MICROS:02d}"
    return cents if rest % _CENT_MICROS == 0 else f"{whole:,}.{rest:06d}".rstrip("0")


def money_decimals(micros: int | None) -> int:
    """Return how exactly amounts of this size are shown: whole units from ten thousand up, else cents."""
    return 0 if micros is not None and abs(micros) >= 10_000 * MICROS else 2


def gpu_hours(milliseconds: int, decimals: int = 1) -> str:
    """Return GPU time in GPU-hours."""
    return decimal(nearest(milliseconds * 10**decimals, HOUR_MS), decimals)


def brief_hours(milliseconds: int) -> str:
    """Return GPU time in GPU-hours to a tenth, without a last zero: "12.5", "12"."""
    return tenths(nearest(milliseconds * 10, HOUR_MS))


def tenths(amount: int) -> str:
    """Return a number of tenths: 125 is "12.5", 120 is "12"."""
    whole, rest = divmod(amount, 10)
    return f"{whole:,}.{rest}" if rest else f"{whole:,}"


def hours_decimals(milliseconds: int) -> int:
    """Return how exactly GPU-hours of this size are shown."""
    if milliseconds >= 10_000 * HOUR_MS:
        return 0
    return 1 if milliseconds >= 10 * HOUR_MS else 3


def percent(part: int, whole: int = PERMILLE, decimals: int = 1) -> str:
    """Return a share, of permille where no other whole is named, as "38.0%"; a dash where there is no whole."""
    return f"{decimal(nearest(part * 100 * 10**decimals, whole), decimals)}%" if whole else UNKNOWN


def whole_percent(permille: int) -> str:
    """Return a share without decimals, for a sentence: "38%"."""
    return percent(permille, decimals=0)


def brief_percent(permille: int) -> str:
    """Return a share without a last zero: 125 is "12.5%", 120 is "12%"."""
    return f"{tenths(permille)}%"


def ratio_percent(ratio: float | None, decimals: int = 1) -> str:
    """Return what is measured from 0 to 1 as a share, "38.0%"; unknown is a dash, without a sign."""
    return UNKNOWN if ratio is None else f"{decimal(round(ratio * 100 * 10**decimals), decimals)}%"


def nothing_avoidable(held: int, silent: int) -> str:
    """Return that nothing avoidable was found, of what was measured: of `held` time `silent` was not."""
    if not held:
        return "No run is known to have held a GPU, so there is no use to assess"
    if silent >= held:
        return "Nothing was measured of what runs held: what of it was avoidable is not known"
    if not silent:
        return "Nothing avoidable was found"
    share = decimal((held - silent) * 1000 // held, 1)  # rounded down: 100 means all
    return f"Nothing avoidable was found in the {share}% of held GPU-hours that were measured"


def nothing_recommended(held: int, silent: int, unjudged: int) -> str:
    """Return that nothing is recommended, of what was looked at; `unjudged` rules lacked data."""
    if not held:
        return "Nothing is recommended: no run is known to have held a GPU."
    if silent >= held:
        return "Nothing was measured of what runs held: what to change is not known."
    share = decimal((held - silent) * 1000 // held, 1)
    part = f", of the {share}% of held GPU-hours that were measured" if silent else ""
    return f"Nothing is recommended{part}{unjudged_words(unjudged)}."


def unjudged_words(rules: int) -> str:
    """Return that rules lacked data, to follow a sentence; nothing where none did."""
    return f"; insufficient data for {counted(rules, 'rule')}" if rules else ""


def unheld_words(milliseconds: int, worked: int, activity: int) -> str:
    """Return that what counts as unallocated was busy, and that no scheduler reported who held it."""
    share, busy = percent(worked, milliseconds), f"{(activity + 5) // 10}%"
    return f"{share} of the unallocated GPU-hours were busy ({busy} on average), and nobody reported who held them"


def duration(seconds: int) -> str:
    """Return a span in its two largest units: "70 h 30 min", "45 min 00 s"."""
    if seconds < 60:
        return f"{seconds}{NO_BREAK}s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s".replace(" ", NO_BREAK)
    minutes = nearest(seconds, 60)
    return f"{minutes // 60} h {minutes % 60:02d} min".replace(" ", NO_BREAK)


def length_of_time(milliseconds: int) -> str:
    """Return a length of time in one unit: "3.5 h", "40 min"."""
    if milliseconds < HOUR_MS:
        return f"{milliseconds // MINUTE_MS} min"
    return f"{brief_hours(milliseconds)} h"


def clock(seconds: int) -> str:
    """Return a span as minutes and seconds, "22:03"; with hours from one hour up, "1:22:03"."""
    sign, rest = ("-" if seconds < 0 else ""), abs(seconds)
    if rest >= 3600:
        return f"{sign}{rest // 3600}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{sign}{rest // 60}:{rest % 60:02d}"


def day(moment: datetime) -> str:
    """Return a day as "Mon 9 Nov"; month names do not follow the machine's locale."""
    return f"{_DAYS[moment.weekday()]} {moment.day} {_MONTHS[moment.month - 1]}"


def moment_words(instant: int, timezone: str) -> str:
    """Return a local time as "Tue 10 Nov 08:12"."""
    at = local(instant, timezone)
    return f"{day(at)} {at:%H:%M}"


def short_moment(instant: int, timezone: str) -> str:
    """Return a local time without its weekday: "17 Nov 06:00"."""
    return moment_words(instant, timezone).split(" ", 1)[1]


def until_words(instant: int, timezone: str) -> str:
    """Return a moment as an end: "the end of Tue 1 Dec" where it is midnight, else "Tue 1 Dec 08:00"."""
    at = local(instant, timezone)
    return (
        f"the end of {day(local(instant - 1, timezone))}"
        if at.hour == at.minute == 0
        else moment_words(instant, timezone)
    )


def span_words(start: int, end: int, timezone: str) -> str:
    """Return "Wed 11 Nov 09:00 - 14:00", or both days where they differ; midnight belongs to the day that it ends."""
    first, last = local(start, timezone), local(end, timezone)
    if first.date() == last.date():
        return f"{moment_words(start, timezone)} - {last:%H:%M}"
    if last.hour == last.minute == 0:
        closing = local(end - 1, timezone)
        return f"{moment_words(start, timezone)} - {'' if first.date() == closing.date() else f'{day(closing)} '}24:00"
    return f"{moment_words(start, timezone)} - {moment_words(end, timezone)}"


def kind_of(period: Period) -> str:
    """Return what a period is called: a week, a month, or just a period."""
    if "-W" in period.label:
        return "week"
    return "month" if re.fullmatch(r"\d{4}-\d{2}", period.label) else "period"


def days(period: Period) -> str:
    """Return a period's days: "Mon 9 Nov - Sun 15 Nov", or times where it does not begin and end at midnight."""
    first, last = local(period.start, period.timezone), local(period.end, period.timezone)
    if first.hour or last.hour:
        return f"{moment_words(period.start, period.timezone)} - {moment_words(period.end, period.timezone)}"
    final = local(period.end - 1, period.timezone)
    return day(first) if first.date() == final.date() else f"{day(first)} - {day(final)}"


def plain(name: str, most: int = _NAME_MAX) -> str:
    """Return a name bounded to so many characters, and without what could rewrite a terminal or break a line.

    That is control, format and private characters, and the two separators of lines and paragraphs.
    """
    return "".join("?" if _is_unsafe(c) else c for c in name[:most])


def _is_unsafe(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "C" or category in ("Zl", "Zp")


def plain_sentence(text: str) -> str:
    """Return a sentence without control characters, however long."""
    return " ".join(plain(word) for word in text.split())


def owner_word(actor: str | None, unknown: str = "not known") -> str:
    """Return who is to act: the job owner of a run, the platform team, or who plans capacity."""
    return "job owner" if actor == "run" else actor or unknown


def counted(number: int | Decimal, noun: str) -> str:
    """Return "1 run", "3 runs" or "0.5 GPUs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some(names: list[str], most: int = 4) -> str:
    """Return a list of names that stays short: "n1, n2, n3, n4 and 8 more"."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def called(names: list[str]) -> str:
    """Return runs of one name as findings do: "det-sweep (41)"."""
    return f"{names[0]} ({len(names)})" if len(names) > 1 else names[0]


def gib(amount: int) -> str:
    """Return memory in GiB, to a tenth."""
    return f"{tenths((amount * 10 + GIB // 2) // GIB)} GiB"


def bytes_words(amount: int) -> str:
    """Return an amount of bytes in decimal units: "495 MB"."""
    value = float(amount)
    for unit in ("B", "kB", "MB", "GB", "TB", "PB", "EB"):
        if value < 1000 or unit == "EB":
            return f"{value:.0f} {unit}" if value >= 100 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("BUG: the loop ends with EB")


@cache
def shipped_words(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the tables of a file of sentences that is shipped beside the code, read once."""
    return tomllib.loads(path.read_text(encoding="utf-8"))
