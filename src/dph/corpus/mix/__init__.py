"""Mixtures of corpora: so many bytes of each, and at most so many of a language.

``shares`` says who gets how much, ``selection`` who is taken, ``run`` writes the mixture.
"""
