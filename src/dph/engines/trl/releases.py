"""Parts of TRL that differ between its releases from 1.12 on, in one place.

1.12 and 1.13 take the size of a group from the trainer, later ones as an argument; a group of one
is what both understand. tests/engines/trl/test_contract.py names what moved.
"""

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dph.model.sampler.base import SamplingParameters


def generated(
    trainer: Any, prompts: Sequence[Sequence[int]], parameters: SamplingParameters
) -> list[list[int]]:
    """One completion of each prompt by the trainer's own generation: vLLM's where it has vLLM.

    Every process must call this equally often.
    """
    args, turns = trainer.args, trainer._generate_single_turn
    own = {"num_generations": 1} if "num_generations" in inspect.signature(turns).parameters else {}
    rows = args.per_device_train_batch_size * args.steps_per_generation
    size = len(prompts) if trainer.use_vllm else rows
    found: list[list[int]] = []
    with _as_asked(trainer, parameters), _set(trainer, num_generations=1, num_generations_eval=1):
        for start in range(0, len(prompts), size):
            batch = [list(prompt) for prompt in prompts[start : start + size]]
            completions, _ = turns(batch, None, {}, **own)
            found += [[int(token) for token in ids] for ids in completions]
    return found


@contextmanager
def _as_asked(trainer: Any, parameters: SamplingParameters) -> Iterator[None]:
    """The trainer's generation with other parameters."""
    asked = {"temperature": parameters.temperature, "top_p": parameters.top_p}
    if trainer.use_vllm:
        asked |= {"temperature": 0.0} if parameters.greedy else {}
        length = {"max_completion_length": parameters.max_tokens}
        with _set(trainer.vllm_generation, **asked, **length):
            yield
        return
    asked["max_new_tokens"] = parameters.max_tokens
    if parameters.greedy:  # do_sample=False would be filled in from the model's own config
        asked["top_k"] = 1
    config = copy.deepcopy(trainer.generation_config)
    config.update(**asked)
    changed = {**trainer.generation_kwargs, **asked}
    with _set(trainer, generation_config=config, generation_kwargs=changed):
        yield


@contextmanager
def _set(owner: Any, **values: Any) -> Iterator[None]:
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)
