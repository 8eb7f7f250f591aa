"""The literature's baselines, for comparison."""
