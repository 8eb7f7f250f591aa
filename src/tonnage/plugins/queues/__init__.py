"""Queue plugins: shares, the order of queues, reclaim and enqueueing."""
