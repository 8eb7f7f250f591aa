"""The sources of the dashboard, one module each: files, a simulation, a live cluster, a server of this process."""
