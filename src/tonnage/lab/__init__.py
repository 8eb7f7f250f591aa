"""A practice cluster on this machine: etcd, kube-apiserver and kube-scheduler, real ones, for tests and for trying."""
