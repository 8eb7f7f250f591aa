"""Benchmarks: speed and memory of the hot paths, as figures and as ratios measured in one run."""
