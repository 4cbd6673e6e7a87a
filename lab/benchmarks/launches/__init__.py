"""Launches and waits of a step on a GPU, counted on a CPU."""
