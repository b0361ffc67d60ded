"""What runs do: one function a kind of run, and the registry of all of them."""
