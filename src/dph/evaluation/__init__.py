"""What is measured of a model: Pass@k with intervals, what was kept and found, how many styles."""
