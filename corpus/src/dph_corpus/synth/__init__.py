"""Rows written by a model from seeds, kept only when executed (OpenCoder, section 2.2)."""
