"""The quickstart world: small text-to-SQL tasks whose effects show on a CPU in minutes."""
