"""The report of a simulation, as one self-contained HTML page."""
