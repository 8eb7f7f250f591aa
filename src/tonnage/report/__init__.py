"""What a simulation came to, as one page that can be mailed around."""
