"""A natural world: questions of Spider, their queries in several forms that return the same rows."""
