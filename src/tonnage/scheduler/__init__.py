"""`tonnage scheduler`: cycles over a live cluster for the pods that name this scheduler."""
