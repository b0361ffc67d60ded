"""What runs move between hosts: who to whom, how far, what of it crosses racks, and what that costs."""
