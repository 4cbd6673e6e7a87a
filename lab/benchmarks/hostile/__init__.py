"""A study on worlds whose annotators share their gaps, and the curve of what a vote adds."""
