"""What is read of a host beside its GPUs: processors, disks, networks, flows, processes, services, progress."""
