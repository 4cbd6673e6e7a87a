"""A task small enough to train on in a test: say one of three letters, and stop."""

from functools import partial

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dph.model.forward.scorer import AnswerScorer
from dph.model.policies import tokenizer_fingerprint, weight_fingerprint
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.graded import GradedSampler
from dph.model.sampler.torch.sampler import TorchSampler
from dph.records import Outcome, Problem, Verdict
from dph.runs.presample.manifest import Rule, Source, ValueSource
from letter_grader import grade, style_of

__all__ = [
    "UNLABELLED",
    "make_draw",
    "make_model",
    "make_reference",
    "make_source",
    "problems",
    "rule",
    "tokenizer",
]

LETTERS = "abcdef"
UNLABELLED = tuple(
    Problem(problem_id=f"u{i}", prompt=f"say {LETTERS[i % 6]} {'ef'[i // 6]}") for i in range(12)
)
"""Of two letters of which the second is nowhere second in training."""


class LetterVerifier:
    """Right when the response starts with one of the letters asked for."""

    name = "letter"
    version = "1"

    def grade(self, problems, responses):
        return [
            Verdict(
                outcome=Outcome.CORRECT if right else Outcome.WRONG,
                reward=float(right),
            )
            for p, r in zip(problems, responses, strict=True)
            for right in [grade(r, p)]
        ]

    def close(self):
        pass


@pytest.fixture(scope="session")
def tokenizer():
    words = ["<pad>", "<eos>", "say", *LETTERS]
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


@pytest.fixture(scope="session")
def make_model(tokenizer):
    """A fresh tiny Llama; the same seed gives the same weights."""

    def make(seed=0, width=16):
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=32,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            tie_word_embeddings=True,
        )
        return LlamaForCausalLM(config).eval()

    return make


@pytest.fixture(scope="session")
def problems():
    return tuple(
        Problem(
            problem_id=f"{i}",
            prompt=f"say {LETTERS[i % 6]} {LETTERS[i // 6]}",
            answer={"answer": LETTERS[i % 4 : i % 4 + 3]},
        )
        for i in range(24)
    )


@pytest.fixture(scope="session")
def make_draw(tokenizer):
    """The graded sampler of a model."""

    def make(model, **parameters):
        return GradedSampler(
            sampler=TorchSampler(model, tokenizer),
            verifier=LetterVerifier(),
            encode=lambda problem: tuple(tokenizer.encode(problem.prompt)),
            parameters=SamplingParameters(
                **{
                    "max_tokens": 8,
                    "stop_token_ids": (tokenizer.eos_token_id,),
                    **parameters,
                }
            ),
            style=style_of,
        )

    return make


GRADING = ValueSource(graded_by="letter", graded_version="1")


@pytest.fixture(scope="session")
def make_source(tokenizer):
    def make(model, path="letters", **changes):
        fields = {
            "model": path,
            "model_fingerprint": weight_fingerprint(model),
            "tokenizer_fingerprint": tokenizer_fingerprint(tokenizer),
            "prompts": "train",
            "prompts_fingerprint": "letters",
            "chat": False,
            "system_prompt": "",
            "answers": 4,
            "temperature": 1.0,
            "top_p": 1.0,
            "max_tokens": 8,
            "stop_token_ids": (tokenizer.eos_token_id,),
            "dtype": "float32",
            "seed": 0,
        }
        return Source(**{**fields, **changes})

    return make


@pytest.fixture(scope="session")
def rule():
    return Rule(threshold=1, wrong_final="discard")


@pytest.fixture(scope="session")
def make_reference():
    def make(model):
        scorer = AnswerScorer(pad_id=0, temperature=1.0, token_budget=512, dtype="float32")
        return partial(scorer.logprobs, model)

    return make
