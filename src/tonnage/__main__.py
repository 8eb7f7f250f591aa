"""`python -m tonnage`, the same as the command `tonnage`."""

from tonnage.cli.main import main

main()
