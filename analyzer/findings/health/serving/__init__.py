"""Notices of services: what their serving stacks say beside what their GPUs and hosts do. One file a rule."""
