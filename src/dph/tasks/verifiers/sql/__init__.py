"""The SQL verifier: find the statement, run it and the gold, compare by a rule."""
