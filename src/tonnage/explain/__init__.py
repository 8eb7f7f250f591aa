"""Explanations: why a pod waits or is where it is, what would help, and the same for jobs, queues, nodes and cards."""
