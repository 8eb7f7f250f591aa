"""Filter plugins: the rules that keep pods off nodes."""
