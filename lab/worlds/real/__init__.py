"""Tasks for a real language model, SmolLM2-135M-Instruct, asked by solved examples."""
