"""Plans for a cluster: which pods to move, and which nodes to add or give back."""
