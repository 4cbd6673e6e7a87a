"""Models and tokenizers: loading, fingerprints, prompts and the training forward."""
