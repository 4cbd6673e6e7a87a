"""Which of a database's texts a question may speak of: words, stems and BM25."""
