"""Fragmentation: FGD packing, and the measure of free cards that typical pods can use."""
