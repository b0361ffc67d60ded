"""What the kernel tells of sockets over netlink, and whose they are."""
