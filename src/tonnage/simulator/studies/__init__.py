"""Studies of many runs: sweep, cache, results and the upper bound."""
