"""`tonnage extender`: HAMi-compatible webhook and scheduler extender beside the cluster's kube-scheduler."""
