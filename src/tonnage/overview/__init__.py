"""Overview: a cluster as rows for people: nodes with their cards, waiting pods, queues and totals."""
