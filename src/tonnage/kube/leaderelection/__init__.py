"""Leader election by a Lease: who may write, until when, and what a replica does when it comes to lead."""
