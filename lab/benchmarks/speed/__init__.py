"""The speed suite: our step beside its peers, in one run, one JSON line a row."""
