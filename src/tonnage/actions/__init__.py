"""Actions: the steps of a scheduling cycle, one file each, and what several of them share."""
