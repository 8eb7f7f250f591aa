"""Evictions on a cluster: plans, nominated nodes, budgets, and the writes."""
