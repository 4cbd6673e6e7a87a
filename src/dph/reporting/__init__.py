"""What was measured, as tables and pictures."""
