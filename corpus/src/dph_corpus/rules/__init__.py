"""Rules on signals: tables of them, what they say of a file, and filtering as a stage."""
