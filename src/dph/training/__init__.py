"""The training loop for one device."""
