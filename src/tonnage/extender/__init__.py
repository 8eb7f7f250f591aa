"""Door one: webhook and scheduler extender beside a cluster's kube-scheduler, compatible with HAMi."""
