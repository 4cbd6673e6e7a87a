"""Run directories, read: what lies in them, and which runs are seeds of one method."""
