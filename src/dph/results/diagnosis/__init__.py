"""Losses of a run against its initial policy, by ways of answering, and findings in its log.

``diagnose`` reads two evaluations from disk; docs/guides/diagnosis.md has the equations.
"""
