"""How much GPU time is asked for, how much will be, and what mix of buying it would cost least."""
