"""Advantages: from the rewards of a group to the weights of its samples in the loss."""
