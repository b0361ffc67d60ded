"""Copies of a store that is being written, checked before they count, and the way back."""
