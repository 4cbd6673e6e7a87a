"""Documents that hold parts of a test set: found by 10 words in a row, by name, by query.

``test_sets`` turns test sets into an index, ``stage`` compares a document with it, ``run`` does so
for a corpus.
"""
