"""Jobs: pods that are scheduled together, their groups and their queues."""
