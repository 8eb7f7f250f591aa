"""The dashboard: pages about a cluster that follow it live, from any source of cluster state."""
