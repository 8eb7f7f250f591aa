"""The side that faces a cluster's API server: client, informer, leader election."""
