"""Signals: numbers about one file's text, each a small pure function of its parts."""
