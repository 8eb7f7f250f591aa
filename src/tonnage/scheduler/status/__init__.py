"""The status of PodGroups and Queues, kept as it should be."""
