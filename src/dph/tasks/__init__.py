"""Tasks: problems on disk, public data sets as problems, and the styles of answers."""
