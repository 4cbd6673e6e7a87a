"""The order of fine-tuning: two stages, one mixed, or the second alone."""
