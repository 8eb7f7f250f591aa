"""Nodes that get no new pods for the time being, for reasons that only the cluster's user can tell."""
