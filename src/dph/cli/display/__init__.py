"""What verbs print: progress, tables and summaries."""
