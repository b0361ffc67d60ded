"""The commands serve and demo."""
