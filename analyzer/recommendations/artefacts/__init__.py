"""Texts to paste, one file for whom they are: batch scripts, Kubernetes, rank files, MIG layouts."""
