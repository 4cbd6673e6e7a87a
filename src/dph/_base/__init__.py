"""The floor of the package: files, import paths, lazy names, randomness and provenance."""
