"""The commands that back a store up, prove that the copy is whole, and bring it back."""
