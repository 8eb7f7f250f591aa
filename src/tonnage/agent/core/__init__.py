"""The agent's decisions, without input or output: events in, instructions out."""
