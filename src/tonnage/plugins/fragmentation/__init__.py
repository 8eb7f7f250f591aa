"""Fragmentation-aware packing, and how much of the free cards typical pods can use."""
