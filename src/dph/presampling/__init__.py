"""Pre-sampling: the initial policy's own answers, split and stored as a pool."""
