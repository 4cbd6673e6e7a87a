"""A small world for the trainer: a tiny Llama, a pool of its own answers, a token reward."""

import random

from trl import GRPOConfig

from dph.engines.trl import DPHConfig, DPHTrainer, problems_dataset
from dph.records import Problem
from loop_parts import stored_answer
from scored_completions import score_completions
from small_pools import write_pool_of
from tiny_models import VOCABULARY, build_model, build_tokenizer

RECOMPUTE = "activation_checkpointing"  # what transformers before 5.20 calls otherwise
if RECOMPUTE not in DPHConfig.__dataclass_fields__:
    RECOMPUTE = "gradient_checkpointing"
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


def stored_samples(model, dtype="float32", seed=2):
    """Random answers of 1 to 8 tokens after prompts of 1 to 6, with the model's log-probs."""
    rng = random.Random(seed)

    def tokens(longest):
        return tuple(rng.randrange(3, VOCABULARY) for _ in range(rng.randint(1, longest)))

    prompts, completions = zip(*((tokens(6), tokens(8)) for _ in range(STORED)), strict=True)
    settings = {"temperature": TEMPERATURE, "pad_id": 0, "token_budget": 512, "dtype": dtype}
    scores = score_completions(model, prompts, completions, **settings)
    rows = zip(prompts, completions, scores, strict=True)
    return [
        stored_answer(completion, logprobs, prompt=prompt, problem=f"s{i}", index=8)
        for i, (prompt, completion, logprobs) in enumerate(rows)
    ]


def write_small_pool(path, *, samples=None, answers=2, **changes):
    """The pool of ``make_small_model()``; ``answers`` is a seed, ``changes`` go to its source."""
    model = make_small_model()
    rehearsal = stored_samples(model, seed=answers) if samples is None else samples
    return write_pool_of(model, path, rehearsal, **{"temperature": TEMPERATURE, **changes})


def usual(directory):
    """Settings of TRL's own: three steps of sixteen samples, on a CPU, saving nothing."""
    return {
        "output_dir": str(directory / "run"),
        "use_cpu": True,
        "bf16": False,
        RECOMPUTE: False,
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


def grpo_config(directory, **changes):
    return GRPOConfig(**{**usual(directory), **changes})


def make_config(directory, **changes):
    """With seven stored answers in every step."""
    ours = {"pool": str(directory / "pool"), "eta": 0.5, "rehearsal_per_step": 7}
    return DPHConfig(**{**usual(directory), **ours, **changes})


def plain(directory, **changes):
    """Settings without a pool: GRPO, or an objective that rehearses nothing."""
    usual = {"pool": "", "eta": None if "objective" in changes else 0.0}
    return make_config(directory, **{**usual, **changes})


def even_tokens(completion_ids, **_):
    """The share of tokens with an even id."""
    return [sum(token % 2 == 0 for token in ids) / len(ids) for ids in completion_ids]


def weights_of(trainer):
    return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}


def make_trainer(args, *, model=None, trainer=DPHTrainer, reward=even_tokens, **keywords):
    return trainer(
        model=model or make_small_model(),
        reward_funcs=reward,
        args=args,
        train_dataset=problems_dataset(problems()),
        processing_class=build_tokenizer(),
        **keywords,
    )
