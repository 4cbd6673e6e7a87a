"""Rows of questions and answers for supervised fine-tuning: so many of each part, none of a test."""
