"""The GPUs of this host; a folder for each vendor."""
