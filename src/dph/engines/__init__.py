"""The method inside trainers that others maintain; each engine is a separate extra."""
