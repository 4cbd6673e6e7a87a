"""Output of the verbs: progress, tables and summaries."""
