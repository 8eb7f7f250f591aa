"""Many runs: their results, their cache, and the upper bound."""
