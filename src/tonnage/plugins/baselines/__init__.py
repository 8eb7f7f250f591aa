"""Baselines: placement policies that the literature compares others with."""
