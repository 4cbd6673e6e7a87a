"""Killable worker processes: a pool, one process seen from the parent, and the child itself."""
