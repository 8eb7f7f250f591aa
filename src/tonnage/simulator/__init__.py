"""The simulator: synthetic clusters, workloads and traces run through the engine over virtual time."""
