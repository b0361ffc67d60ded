"""The weekly e-mail: what it says, how it is written, sent once, and stopped."""
