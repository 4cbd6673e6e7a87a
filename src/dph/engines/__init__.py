"""The method inside trainers that others maintain; each engine is an extra of its own."""
