"""Benchmarks of the engine, the extender, the scheduler and the simulator."""
