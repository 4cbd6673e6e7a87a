"""Answers to the tasks of reasoning-gym, scored by the package itself."""
