"""Duplicates: copies by SHA-256, near-copies by MinHash over word 5-grams.

``shingles`` and ``signatures`` make of a text what is compared, ``copies`` and ``components`` find
who is a copy of whom, ``verified`` looks closer, and ``run`` does it for a corpus.
"""
