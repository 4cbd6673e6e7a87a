"""Rows of supervised fine-tuning: so many of each part, none of a test."""
