"""What a cluster's scheduler knows, asked once a cluster: who holds which GPU, who waits, the state of the hosts."""
