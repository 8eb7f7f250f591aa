"""The batch scheduler: cycles over a live cluster for the pods that name it."""
