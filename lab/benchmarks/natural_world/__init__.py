"""A natural world: Spider's questions, their queries in forms that return the same rows."""
