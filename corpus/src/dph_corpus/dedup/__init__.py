"""Duplicates: copies by SHA-256, near-copies by MinHash over word 5-grams.

``signatures`` makes of a text what is compared, ``index`` finds who is a copy of whom, on disk,
``work`` is done by workers, and ``run`` does it for a corpus.
"""
