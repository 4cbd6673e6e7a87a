"""Trajectories in an environment: ours next to TRL's ``environment_factory``, of one class.

The policy is a Llama of the suite's size that calls a tool in each of its turns: its head prefers
the word that follows the last one in a script, whatever else it read. That costs what any model
of this size costs, and both sides draw the same tokens. Times are CPU times, processes included.
"""

import resource
import tempfile
from collections.abc import Callable
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template, qwen3_template

from dph.model.prompts import TurnEncoder
from dph.model.sampler import EpisodeSampler, SamplingParameters, TorchSampler
from dph.records import Problem
from dph.tasks.environments import Environment, EpisodeLimits
from lab.benchmarks.speed.asking import Asking
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import AGENTS, ModelSize
from lab.benchmarks.speed.timing import Timing, interleaved
from lab.benchmarks.speed.world import World, build_model, make_prompts

CALLS = 3
"""Results that a trajectory reads; a turn of the policy follows the last of them."""
_START, _END = "<|im_start|>", "<|im_end|>"
_SCRIPT = (
    *("assistant", "<tool_call>", '{"name":', '"ask",', '"arguments":', '{"thing":', '"cup"}}'),
    *("</tool_call>", _END),
)
_PREFERENCE = 40.0
"""How much more likely the next word of the script is than any other, in nats."""


def measure(case: str, run: Run) -> list[Row]:
    """Draw and grade all trajectories of a rollout, again and again."""
    world = run.world(AGENTS[case])
    tokenizer = _tokenizer(world.size)
    model = _asking_model(world, tokenizer)
    prompts = make_prompts(world, world.shape.prompts)
    lengths: dict[str, list[int]] = {"ours": [], "trl": []}
    before = _children_seconds()
    with Environment(Asking, limits=EpisodeLimits(turns=CALLS + 1)) as environment:
        sides = {
            "ours": _ours(world, model, tokenizer, environment, prompts, lengths["ours"]),
            "trl": _trl(world, model, tokenizer, prompts, lengths["trl"]),
        }
        times = interleaved(sides, repeats=run.repeats)
    if set(lengths["ours"]) != set(lengths["trl"]):
        raise RuntimeError(f"the sides drew other trajectories: {lengths}")
    # Ours runs the class in processes: their time belongs to the side, that of their start too.
    processes = (_children_seconds() - before) / (run.repeats + 1)
    ours = Timing(tuple(seconds + processes for seconds in times["ours"].seconds))
    rows = world.shape.rows
    return [
        make_row(
            "agents",
            case,
            run,
            shape=f"{world.shape}, {CALLS} calls",
            ours=ours,
            peer="TRL's environment_factory",
            peer_timing=times["trl"],
            ours_mean_length=fmean(lengths["ours"]),
            peer_mean_length=fmean(lengths["trl"]),
            ours_rate=rows / ours.median,
            processes_s=processes,
            peer_rate=rows / times["trl"].median,
        )
    ]


def _children_seconds() -> float:
    """CPU time of the processes that ended so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _tokenizer(size: ModelSize) -> PreTrainedTokenizerFast:
    """A token a word; those of the chat template that the script does not need are unknown."""
    words = ["<pad>", _END, _START, "<unk>", *_SCRIPT[:-1]]
    words += [f"w{i}" for i in range(2, size.vocabulary - len(words) + 2)]
    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token=_END,
        unk_token="<unk>",
        additional_special_tokens=[_START],
        padding_side="left",
    )
    tokenizer.chat_template = qwen3_chat_template
    tokenizer.response_template = qwen3_template | {"start_anchor": f"{_START} assistant"}
    return tokenizer


def _asking_model(world: World, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """The suite's model, in whose residual stream the last word stays and decides the next."""
    model = build_model(world).eval()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.lm_head.weight.zero_()
        ids = tokenizer.convert_tokens_to_ids(list(_SCRIPT))
        for word, following in pairwise(ids):
            seen = model.model.norm(model.model.embed_tokens.weight[word])
            model.lm_head.weight[following] = _PREFERENCE * seen / seen.square().sum()
    return model


def _ours(
    world: World,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    environment: Environment,
    prompts: list[str],
    lengths: list[int],
) -> Callable[[], None]:
    draw = EpisodeSampler(
        sampler=TorchSampler(model, tokenizer, dtype=world.dtype),
        environment=environment,
        encoder=TurnEncoder(tokenizer, environment.tools, chat=True),
        parameters=SamplingParameters(
            max_tokens=len(_SCRIPT), stop_token_ids=(tokenizer.eos_token_id,)
        ),
        tokens=1024,
    )
    problems = [Problem(problem_id=text, prompt=_chat(text), answer={}) for text in prompts]
    seeds = iter(range(10**6))

    def sample() -> None:
        rollout = draw(problems, samples=world.shape.samples, seed=next(seeds))
        lengths.extend(len(g.completion.token_ids) for group in rollout.groups for g in group)

    return sample


def _trl(
    world: World,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: list[str],
    lengths: list[int],
) -> Callable[[], None]:
    shape, cuda = world.shape, world.device == "cuda"
    rows: list[dict[str, Any]] = [{"prompt": list(_chat(text))} for text in prompts]
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(
            output_dir=tempfile.mkdtemp(prefix="dph-bench-"),
            per_device_train_batch_size=shape.rows,
            num_generations=shape.samples,
            max_completion_length=1024,
            max_tool_calling_iterations=CALLS,
            beta=0.0,
            bf16=world.dtype == "bfloat16",
            use_cpu=not cuda,
            gradient_checkpointing=False,
            report_to="none",
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        environment_factory=Asking,
    )
    repeated = [dict(row) for row in rows for _ in range(shape.samples)]

    def sample() -> None:
        model.train()  # otherwise TRL takes the group for one of an evaluation
        drawn = trainer._generate_and_score_completions(repeated)
        model.eval()
        lengths.extend(drawn["completion_mask"].sum(1).tolist())

    return sample


def _chat(text: str) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": text},)
