"""Graded answers that other tools wrote: found by their content, read as problems and answers."""
