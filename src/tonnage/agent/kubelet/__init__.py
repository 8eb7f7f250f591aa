"""The kubelet's side: its messages, its sockets and its checkpoint."""
