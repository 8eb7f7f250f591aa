"""The lab: a real etcd, kube-apiserver and kube-scheduler on this machine, for tests and for trying things out."""
