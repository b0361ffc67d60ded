"""This host now, on a terminal, from what its agent already knows: no server, no store, no rights."""
