import pytest

from dph import SettingsError
from dph.tasks.problems import load_problems, problems_fingerprint, save_problems
from dph.tasks.verifiers.gym.verifier import GymMaker, parse_config

pytest.importorskip("reasoning_gym")


@pytest.fixture(scope="module")
def maker():
    with GymMaker() as made:
        yield made


def test_a_task_is_a_function_of_its_seed_and_settings(maker, tmp_path):
    first = maker.problems("chain_sum", count=5, seed=1)
    assert maker.problems("chain_sum", count=5, seed=1) == first
    prints = {
        problems_fingerprint(maker.problems("chain_sum", count=5, **options))
        for options in ({"seed": 1}, {"seed": 2}, {"seed": 1, "config": {"max_terms": 3}})
    }
    assert len(prints) == 3
    problem = maker.problems("chain_sum", count=1, config={"max_terms": 3})[0]
    assert problem.answer["gym_config"] == {"max_terms": 3}
    save_problems(tmp_path / "p.jsonl", [problem])
    assert load_problems(tmp_path / "p.jsonl") == [problem]
    config = {"min_value": 2, "max_value": 4, "min_numbers": 2, "max_numbers": 2}
    problems = maker.problems("gcd", count=500, config=config)
    assert len({p.prompt for p in problems}) == len(problems) == 9  # pairs of 2, 3 and 4


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("chain_sums", {}, "no task 'chain_sums'; did you mean 'chain_sum'"),
        ("composite", {}, "no task 'composite'"),
        ("gcd", {"config": {"minimum": 2}}, r"cannot make gcd with \{'minimum': 2\}.*min_numbers"),
        ("gcd", {"config": {"min_value": -2}}, "cannot make gcd with"),
        ("gcd", {"count": 0}, "count must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_made_is_one_message(maker, task, options, message):
    with pytest.raises(SettingsError, match=message):
        maker.problems(task, **{"count": 1, **options})


def test_settings_of_a_task_are_toml_or_texts():
    assert parse_config(["a=1", "b=[1, 2]", "c=true", "d=word", "e=x=y"]) == {
        "a": 1,
        "b": [1, 2],
        "c": True,
        "d": "word",
        "e": "x=y",
    }
    with pytest.raises(SettingsError, match="KEY=VALUE, got 'alone'"):
        parse_config(["alone"])
