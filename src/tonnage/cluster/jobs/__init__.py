"""Jobs: the pods that are scheduled together, their groups and their queues."""
