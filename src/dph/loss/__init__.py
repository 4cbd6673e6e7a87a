"""The loss: f-divergences and objectives, as pure functions of log-probs."""
