"""The status of PodGroups and Queues, kept up to date."""
