"""The SQL verifier: find the statement, run it beside the gold, compare by a rule."""
