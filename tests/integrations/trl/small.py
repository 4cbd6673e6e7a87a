"""A small world for the trainer: a tiny Llama, a pool of its own answers, a token reward."""

import random

from dph.forward.scoring import score_completions
from dph.integrations.trl import DPHConfig, DPHTrainer, problems_dataset
from dph.models.fingerprint import tokenizer_fingerprint, weight_fingerprint
from dph.presampling.manifest import Counts, Rule, Source
from dph.presampling.pool import RehearsalSample, write_pool
from dph.records import Problem
from tiny_models import VOCABULARY, build_model, build_tokenizer

TEMPERATURE = 0.9
STORED = 24


def make_small_model(seed=0):
    """Weights small enough for a float32 gradient to have six digits."""
    return build_model(initializer_range=0.1, seed=seed)


def problems(count=24):
    rng = random.Random(1)
    return [
        Problem(
            problem_id=f"p{index}",
            prompt=" ".join(f"w{rng.randrange(3, VOCABULARY)}" for _ in range(rng.randint(1, 6))),
            answer={"answer": str(index)},
        )
        for index in range(count)
    ]


def stored_samples(model, dtype="float32"):
    """Random answers of 1 to 8 tokens after prompts of 1 to 6, with the model's log-probs."""
    rng = random.Random(2)

    def tokens(longest):
        return tuple(rng.randrange(3, VOCABULARY) for _ in range(rng.randint(1, longest)))

    prompts, completions = zip(*((tokens(6), tokens(8)) for _ in range(STORED)), strict=True)
    scores = score_completions(
        model,
        prompts,
        completions,
        temperature=TEMPERATURE,
        pad_id=0,
        token_budget=512,
        dtype=dtype,
    )
    return [
        RehearsalSample(
            problem_id=f"s{index}",
            sample_index=8,
            prompt_ids=prompt,
            completion_ids=completion,
            ref_logprobs=logprobs,
            correct=8,
        )
        for index, (prompt, completion, logprobs) in enumerate(
            zip(prompts, completions, scores, strict=True)
        )
    ]


def write_small_pool(path, *, samples=None, **changes):
    """The pool of ``make_small_model()``; ``changes`` to what it says it was made from."""
    model, tokenizer = make_small_model(), build_tokenizer()
    source = {
        "model": "small",
        "model_fingerprint": weight_fingerprint(model),
        "tokenizer_fingerprint": tokenizer_fingerprint(tokenizer),
        "problems_fingerprint": "small",
        "chat": False,
        "system_prompt": "",
        "verifier": "none",
        "verifier_version": "1",
        "samples": 8,
        "temperature": TEMPERATURE,
        "top_p": 1.0,
        "max_tokens": 8,
        "stop_token_ids": (1,),
        "dtype": "float32",
        "seed": 0,
    }
    rehearsal = stored_samples(model) if samples is None else samples
    write_pool(
        path,
        source=Source(**{**source, **changes}),
        rule=Rule(threshold=7, wrong_final="discard"),
        counts=Counts(
            problems=STORED,
            exploration=0,
            rehearsal=len(rehearsal),
            discarded=0,
            histogram=(0,) * 9,
        ),
        exploration=[],
        rehearsal=rehearsal,
        samples=[],
    )
    return path


def make_config(directory, **changes):
    """Three steps of sixteen new samples and seven stored ones, on a CPU, saving nothing."""
    values = {
        "output_dir": str(directory / "run"),
        "pool": str(directory / "pool"),
        "eta": 0.5,
        "rehearsal_per_step": 7,
        "use_cpu": True,
        "bf16": False,
        "activation_checkpointing": False,
        "temperature": TEMPERATURE,
        "num_generations": 4,
        "per_device_train_batch_size": 16,
        "max_completion_length": 6,
        "max_steps": 3,
        "max_grad_norm": 0.0,
        "learning_rate": 2e-2,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    return DPHConfig(**{**values, **changes})


def even_tokens(completion_ids, **_):
    """The share of tokens with an even id."""
    return [sum(token % 2 == 0 for token in ids) / len(ids) for ids in completion_ids]


def make_trainer(args, *, model=None, trainer=DPHTrainer, reward=even_tokens, **keywords):
    return trainer(
        model=model or make_small_model(),
        reward_funcs=reward,
        args=args,
        train_dataset=problems_dataset(problems()),
        processing_class=build_tokenizer(),
        **keywords,
    )
