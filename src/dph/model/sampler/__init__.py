"""Drawing completions from a model, and grading them.

A sampler of your own is a class with the method of `dph.model.sampler.base.Sampler`.
"""
