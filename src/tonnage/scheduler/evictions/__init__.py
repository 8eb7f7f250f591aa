"""Evictions: plans, nominated nodes, PodDisruptionBudgets and the writes."""
