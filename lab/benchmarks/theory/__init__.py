"""Theorem 1 of arXiv:2509.07430, evaluated exactly on tabular problems (docs/theory.md)."""
