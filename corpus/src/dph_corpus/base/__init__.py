"""Causal language models by maximum likelihood: a base model, and its supervised fine-tuning.

``base`` runs transformers' Trainer over packed documents of a corpus, ``sft`` TRL's SFTTrainer over
questions and answers. Both go on after a kill.
"""
