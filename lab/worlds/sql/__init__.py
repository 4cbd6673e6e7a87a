"""Text-to-SQL on SQLite files: five ways of writing, each learnt from somebody with gaps."""
