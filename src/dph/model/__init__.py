"""Models and tokenizers: loading, fingerprints, prompts, the training forward, the sampler."""
