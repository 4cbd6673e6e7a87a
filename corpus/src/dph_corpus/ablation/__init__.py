"""Whether cleaning a corpus pays: models of raw and cleaned text at equal tokens, held-out code."""
