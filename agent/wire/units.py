"""Units, once: times are integer microseconds or milliseconds, sizes bytes, shares thousandths, money millionths."""

MILLISECOND_US = 1_000
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
WEEK_US = 7 * DAY_US

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

MINUTE_SECONDS = 60
HOUR_SECONDS = 60 * MINUTE_SECONDS
DAY_SECONDS = 24 * HOUR_SECONDS
WEEK_SECONDS = 7 * DAY_SECONDS

KIB, MIB, GIB = 2**10, 2**20, 2**30
GB = 10**9

PERMILLE = 1_000  # of one
MICROS = 1_000_000  # of a unit of currency
