"""The sampler on vLLM."""
