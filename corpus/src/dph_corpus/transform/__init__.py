"""Transforming documents: copyright notices away, personal data and secrets to placeholders."""
