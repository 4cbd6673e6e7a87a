"""The laboratory: small worlds, the quickstart, studies, base models and the cookbook."""
