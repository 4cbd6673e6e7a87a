"""Running untrusted programs: confined processes, and verdicts that they cannot write."""
