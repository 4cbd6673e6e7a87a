"""Text-to-SQL: Spider, BIRD and their prompts."""
