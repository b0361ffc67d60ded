"""`gpuledger run`: one command, watched from begin to end, without a server."""
