"""The sampler on torch: any causal language model of transformers, on one device."""
