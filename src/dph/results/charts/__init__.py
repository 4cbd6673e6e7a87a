"""Measurements as tables and pictures."""
