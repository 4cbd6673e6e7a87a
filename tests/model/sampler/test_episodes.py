"""Trajectories drawn turn by turn: whose tokens are whose, how rows end, and that groups agree."""

import pytest

from dph import DataError, Outcome, Problem, SettingsError, Verdict, VerifierError
from dph.model.prompts import TurnEncoder
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.episodes import EpisodeSampler, RoutedSampler
from dph.model.sampler.torch.sampler import TorchSampler
from dph.records import Turn
from dph.tasks.environments import Environment, EpisodeLimits, read_turns
from environment_classes import (
    BeginsApart,
    BeginsAsItsCounter,
    Coding,
    Everything,
    Game,
    Hostile,
    Increment,
    IncrementTo,
    RaisesInReset,
    SaysNothing,
)
from scripted_policy import END, by_steps_of, byte_tokenizer, call, make_draw
from tiny_models import build_model, build_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return byte_tokenizer()


def problems(*targets):
    return [
        Problem(problem_id=f"to {n}", prompt=f"Increment to {n}.", answer={"target": n})
        for n in targets
    ]


def test_a_trajectory_says_of_every_token_who_wrote_it(tokenizer):
    with Environment(IncrementTo) as environment:
        draw = make_draw(tokenizer, environment, by_steps_of(1))
        rollout = draw(problems(2), samples=2, seed=0)
    ((slow, fast),) = rollout.groups
    for graded, steps in ((slow, (1, 2)), (fast, (2,))):
        completion = graded.completion
        tokens = list(zip(completion.token_ids, completion.written, strict=True))
        own, others = ([t for t, mine in tokens if mine is kind] for kind in (True, False))
        said = call("increment", step=steps[0] if len(steps) == 1 else 1)
        assert tokenizer.decode(own) == f"{said}{END}" * len(steps) + f"Done.{END}"
        assert tokenizer.decode(others) == "".join(
            f"\n<|im_start|>tool\n{n}{END}\n<|im_start|>assistant\n" for n in steps
        )
        assert completion.length == len(completion.logprobs) == len(own)
        turns = [len(said) + 1] * len(steps) + [len("Done.") + 1]
        assert completion.logprobs == tuple(
            -float(turn + 1) for turn, count in enumerate(turns) for _ in range(count)
        )
        assert completion.finished
        both = [turn for n in steps for turn in (Turn("", said), Turn("increment", str(n)))]
        assert read_turns(completion.text) == [*both, Turn("", "Done.")]
        assert graded.verdict == Verdict(outcome=Outcome.CORRECT, reward=1.0)
        assert graded.style == " ".join(["increment"] * len(steps))
    prompt, history = rollout.prompts[0], slow.completion.token_ids
    assert tokenizer.decode((*prompt, *history)).count("<|im_start|>assistant") == 3


def test_rows_that_ended_are_not_drawn_again_and_each_turn_has_numbers_of_its_own(tokenizer):
    with Environment(IncrementTo) as environment:
        draw = make_draw(tokenizer, environment, by_steps_of(1))
        draw(problems(3), samples=3, seed=5)
    seeds, rows = zip(*draw.sampler.calls, strict=True)
    assert rows == ([0, 1, 2], [0, 1, 2], [0, 1], [0])
    assert seeds[0] == 5
    assert len(set(seeds)) == 4


def test_the_same_seed_gives_the_same_trajectories_in_parts_or_at_once(tokenizer):
    def drawn(at_once, samples=4):
        with Environment(Increment) as environment:
            script = by_steps_of(1)
            draw = make_draw(
                tokenizer,
                environment,
                lambda p, i: script(p.replace("the counter by", "to"), i),
                at_once=at_once,
            )
            asked = [Problem(problem_id=n, prompt="") for n in "ab"]
            rollout = draw(asked, samples=samples, seed=1)
        return [[g.completion.token_ids for g in group] for group in rollout.groups]

    whole = drawn(8)
    assert whole == drawn(3)
    assert [group[:2] for group in whole] == drawn(8, samples=2)


def test_a_trajectory_of_one_turn_is_the_answer_that_the_sampler_draws():
    tokenizer, model = build_tokenizer(), build_model()
    sampler = TorchSampler(model, tokenizer)
    parameters = SamplingParameters(max_tokens=12, stop_token_ids=(1,))
    problem = Problem(problem_id="p", prompt="w4 w5")
    with Environment(SaysNothing) as environment:
        draw = EpisodeSampler(
            sampler=sampler,
            environment=environment,
            encoder=TurnEncoder(tokenizer, environment.tools, chat=False),
            parameters=parameters,
            tokens=12,
            verifier=Lengths(),
        )
        (group,) = draw([problem], samples=6, seed=7).groups
    request = SampleRequest(problem_id="p", prompt_ids=tuple(tokenizer.encode("w4 w5")), samples=6)
    (alone,) = sampler.sample([request], parameters, seed=7)
    assert any(completion.finished for completion in alone)
    for graded, answer in zip(group, alone, strict=True):
        assert graded.completion.token_ids == answer.token_ids
        assert graded.completion.logprobs == answer.logprobs
        assert graded.completion.finished == answer.finished
        assert graded.verdict.reward == float(answer.finished)


class Lengths:
    """Every answer is right."""

    name, version = "lengths", "1"

    def __init__(self):
        self.seen = []

    def grade(self, problems, responses):
        self.seen += responses
        return [Verdict(outcome=Outcome.CORRECT, reward=1.0) for _ in problems]

    def close(self):
        pass


def test_a_verifier_grades_the_answer_and_nothing_that_was_cut_off(tokenizer):
    def script(_, index):
        return ["The answer.", "long" * 99, "<tool_call>{"][index]

    verifier = Lengths()
    limits = EpisodeLimits(errors=0)
    with Environment(SaysNothing, limits=limits) as environment:
        draw = make_draw(tokenizer, environment, script, verifier=verifier)
        ((right, cut, bad),) = draw(problems(1), samples=3, seed=0).groups
    assert verifier.seen == ["The answer."]
    assert right.verdict.outcome is Outcome.CORRECT
    assert (cut.verdict.outcome, cut.completion.finished) == (Outcome.CUT_OFF, False)
    assert bad.verdict.outcome is Outcome.INVALID
    assert bad.verdict.reward == 0.0
    assert (right.style, bad.style) == (None, "error")


def test_a_row_without_room_for_another_turn_is_cut_off_behind_its_own_tokens(tokenizer):
    with Environment(IncrementTo) as environment:
        draw = make_draw(tokenizer, environment, by_steps_of(1), max_tokens=80, tokens=160)
        ((graded,),) = draw(problems(9), samples=1, seed=0).groups
        bounded = make_draw(
            tokenizer, environment, by_steps_of(1), max_tokens=80, tokens=10**6, context=999
        )
        ((within,),) = bounded(problems(9), samples=1, seed=0).groups
    assert graded.verdict.outcome is Outcome.CUT_OFF
    assert graded.verdict.reason == "no room for another turn in 160 tokens"
    assert all(graded.completion.written)
    assert within.verdict.outcome is Outcome.CUT_OFF
    assert len(within.completion.token_ids) < 999


def test_words_of_reset_that_leave_no_room_for_a_turn_cut_off_their_trajectory_alone(tokenizer):
    asked = [Problem(problem_id=n[0], prompt="", answer={n: 0}) for n in ("a", "b" * 3000)]
    with Environment(Everything) as environment:
        draw = make_draw(tokenizer, environment, lambda *_: "Done.", context=3000)
        (short,), (long,) = draw(asked, samples=1, seed=0).groups
    assert (short.verdict.reward, long.verdict.outcome) == (0.5, Outcome.CUT_OFF)


def test_a_hang_or_a_crash_costs_one_row_and_holds_up_no_other(tokenizer):
    deeds = ["is_nothing", "hangs", "dies", "is_nothing"]

    def script(prompt, index):
        return "Done." if "None" in prompt else call("act", deed=deeds[index])

    with Environment(Hostile, limits=EpisodeLimits(seconds=1.0)) as environment:
        draw = make_draw(tokenizer, environment, script)
        (group,) = draw(problems(1), samples=4, seed=0).groups
    outcomes = [g.verdict.outcome for g in group]
    assert outcomes == [Outcome.WRONG, Outcome.TIMED_OUT, Outcome.CRASHED, Outcome.WRONG]
    assert [g.verdict.reward for g in group] == [0.0] * 4


def test_too_many_crashes_stop_the_run_with_an_example(tokenizer):
    with Environment(RaisesInReset) as environment:
        draw = make_draw(tokenizer, environment, lambda *_: "", verifier=Lengths(), crash_limit=0.5)
        with pytest.raises(VerifierError, match="crashed on 2 of 2 graded answers"):
            draw(problems(1), samples=2, seed=0)
        lenient = make_draw(tokenizer, environment, lambda *_: "", verifier=Lengths())
        (group,) = lenient(problems(1), samples=2, seed=0).groups
        assert [g.completion.token_ids for g in group] == [(), ()]


def test_a_group_that_does_not_begin_alike_is_refused_also_if_it_is_not_drawn_at_once(
    tokenizer, tmp_path
):
    with Environment(BeginsApart) as environment:
        draw = make_draw(tokenizer, environment, lambda *_: "", verifier=Lengths())
        with pytest.raises(VerifierError, match="problem 'to 1' do not begin alike: reset said"):
            draw(problems(1), samples=2, seed=0)
    problem = Problem(problem_id="p", prompt="?", answer={"path": str(tmp_path / "began")})
    with Environment(BeginsAsItsCounter) as environment:
        draw = make_draw(tokenizer, environment, lambda *_: "Done.", at_once=1)
        with pytest.raises(VerifierError, match="reset said '1' and '2'"):
            draw([problem], samples=2, seed=0)


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        (SaysNothing, {}, "no method 'get_reward' and there is no verifier"),
        (Increment, {"verifier": Lengths()}, "which of them says"),
        (Increment, {"tokens": 10}, "no room for a turn of max_tokens = 200"),
        (Increment, {"threads": 0}, "threads and at_once must be at least 1, got 0 and 128"),
    ],
)
def test_settings_that_cannot_work_are_refused(tokenizer, kind, more, message):
    with Environment(kind) as environment, pytest.raises(SettingsError, match=message):
        make_draw(tokenizer, environment, lambda *_: "", **more)


def test_the_third_example_of_trl_shows_each_problem_the_tools_of_its_environment(tokenizer):
    seen = []

    def script(prompt, _):
        seen.append(prompt)
        if "<|im_start|>tool" in prompt:
            return "Done."
        if "Fibonacci" in prompt:
            return call("run_code", code="print(55)")
        return call("move", action="right")

    def problem(place, name):
        return Problem(problem_id=f"p{place}", prompt="", answer={"environment": name})

    names = ["coding", "game", "game", "coding"]
    asked = [problem(place, name) for place, name in enumerate(names)]
    with Environment(Coding) as coding, Environment(Game) as game:
        both = {"coding": coding, "game": game}
        draw = RoutedSampler({n: make_draw(tokenizer, e, script) for n, e in both.items()})
        rollout = draw(asked, samples=2, seed=0)
        with pytest.raises(DataError, match="'environment' is 'chess'; there are the environments"):
            draw([problem(0, "chess")], samples=1, seed=0)
    styles = [[graded.style for graded in group] for group in rollout.groups]
    assert styles == [["run_code"] * 2, ["move"] * 2, ["move"] * 2, ["run_code"] * 2]
    assert {g.verdict.reward for group in rollout.groups for g in group} == {1.0}
    assert [group[0].completion.problem_id for group in rollout.groups] == ["p0", "p1", "p2", "p3"]
    assert ["Fibonacci" in tokenizer.decode(prompt) for prompt in rollout.prompts] == [
        name == "coding" for name in names
    ]
    assert not any("move" in prompt and "run_code" in prompt for prompt in seen)
