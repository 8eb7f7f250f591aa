"""Topology plugins: the pods of a job go to one domain."""
