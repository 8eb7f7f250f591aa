"""Job plugins: gangs, the order of jobs and pods, and which pods may be evicted."""
