"""Child processes: workers with limits, jobs of a fleet, and the sandbox for code from a model."""
