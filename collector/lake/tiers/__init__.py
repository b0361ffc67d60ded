"""Tiers: what samples come to in each minute and each hour, kept long after the samples are gone."""
