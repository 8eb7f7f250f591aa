"""GPU plugins: which cards of a node a pod gets, and the limits of cards."""
