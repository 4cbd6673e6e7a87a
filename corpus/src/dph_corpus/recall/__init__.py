"""Recall of pages that are like a seed, round by round (OpenCoder, section 2.1.2)."""
