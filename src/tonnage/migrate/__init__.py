"""Moving a cluster over from HAMi, Volcano or KAI: what will be the same, what will differ, and the way back."""
