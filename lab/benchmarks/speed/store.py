"""A store of a real model: the distributions at its answers' tokens beside drawing the answers."""

from dph.model.forward.scorer import AnswerScorer
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.graded import GradedSampler
from dph.model.sampler.torch.sampler import TorchSampler
from dph.recipe.stores import StoreSettings
from dph.records import Problem
from dph.runs.presample.stores.groups import StoredGroup
from dph.runs.presample.stores.making import StoreDraw, drawn_answers, with_distributions
from dph.tasks.verifiers.exact import ExactVerifier
from lab.benchmarks.speed.ours import microbatch_tokens
from lab.benchmarks.speed.rows import make_row
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import REAL
from lab.benchmarks.speed.timing import interleaved
from lab.benchmarks.speed.world import PAD, World, build_model, build_tokenizer, make_prompts


def measure(case: str, run: Run) -> list[Row]:
    """Answers to the prompts of a shape, and their distributions, again and again."""
    world = run.world(REAL[case])
    draw, problems = _draw(world)
    answers = drawn_answers(problems, draw)
    groups: list[StoredGroup] = []

    def distributions() -> None:
        groups[:] = with_distributions(problems, answers, draw)

    times = interleaved(
        {
            "answers": lambda: drawn_answers(problems, draw),
            "distributions": distributions,
        },
        repeats=run.repeats,
    )
    both = times["answers"].median + times["distributions"].median
    return [
        make_row(
            "store",
            case,
            run,
            shape=str(world.shape),
            ours=times["distributions"],
            peer="drawing the answers",
            peer_timing=times["answers"],
            store_over_answers=both / times["answers"].median,
            distributions=sum(len(group.token_ids) for group in groups),
        )
    ]


def _draw(world: World) -> tuple[StoreDraw, list[Problem]]:
    model, tokenizer = build_model(world).eval(), build_tokenizer(world.size)
    draw = StoreDraw(
        model=model,
        sampler=GradedSampler(
            sampler=TorchSampler(model, tokenizer, dtype=world.dtype),
            verifier=ExactVerifier(),
            encode=lambda problem: tuple(tokenizer.encode(str(problem.prompt))),
            parameters=SamplingParameters(
                max_tokens=world.shape.completion, stop_token_ids=world.stop_tokens
            ),
        ),
        answers=world.shape.samples,
        top=StoreSettings.model_fields["top"].default,
        seed=0,
        scorer=AnswerScorer(
            pad_id=PAD, temperature=1.0, token_budget=microbatch_tokens(world), dtype=world.dtype
        ),
    )
    prompts = make_prompts(world, world.shape.prompts)
    return draw, [Problem(problem_id=str(i), prompt=p) for i, p in enumerate(prompts)]
