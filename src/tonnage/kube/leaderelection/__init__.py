"""Leader election by a Lease: which replica may write, until when, and what it does when it starts leading."""
