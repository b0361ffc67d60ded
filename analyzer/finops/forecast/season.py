"""How long it takes until a daily series repeats itself."""

WEEK_DAYS = 7
