"""The world ``lookup``: questions that nobody can answer without asking a tool first."""
