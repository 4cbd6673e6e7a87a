"""The mathematics verifier ``math_qwen``: what the Qwen2.5-Math evaluation tool would say."""
