"""A check of everything that runs on one GPU: is it right, and how fast is it?"""
