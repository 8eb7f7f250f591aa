"""`make release`, `make lock` and `make audit`: the files of a release, made from a commit, the same every time."""
