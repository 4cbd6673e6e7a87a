"""Running programs that nobody trusts: confined processes, and verdicts that they cannot write."""
