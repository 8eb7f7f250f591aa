"""The agent: one process on each GPU node that hands containers the devices that were decided for them."""
