"""The verifier ``code``: programs in Python, graded by unit tests or by what they print."""
