"""Losses of a run by ways of answering, and findings in its log (docs/guides/diagnosis.md)."""
