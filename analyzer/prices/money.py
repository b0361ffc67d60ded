"""Money as people read it; everywhere else it is an integer of millionths."""

_CENT_MICROS = 10_000


def dollars(micros: int) -> str:
    """Return an amount with two decimals, or with as many as it has where cents would hide some: 2.60, 2.744705."""
    whole, rest = divmod(micros, 1_000_000)
    if rest % _CENT_MICROS == 0:
        return f"{whole:,}.{rest // _CENT_MICROS:02d}"
    return f"{whole:,}.{rest:06d}".rstrip("0")
