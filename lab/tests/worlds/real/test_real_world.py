import json
import re
from random import Random

import pytest

from dph.errors import ModelError, SettingsError
from dph.tasks.problems import load_problems
from lab.smollm2 import VARIABLE
from lab.study.plan import value_of
from lab.worlds import world_kind
from lab.worlds.real.kind import RealSizes
from lab.worlds.real.world import KINDS
from random_language_model import *  # noqa: F403
from small_study import run_here
from smollm2_model import smollm2  # noqa: F401

SMALL = RealSizes(train=20, in_domain=6, cross_domain=5, unlabelled=7)
FILES = {"shots": 4, "train": 20, "in_domain": 6, "cross_domain": 5, "unlabelled": 14}
KIND = world_kind("real")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return KIND.build(tmp_path_factory.mktemp("real") / "world", seed=3, sizes=SMALL)


def prompts(world, name):
    return [problem.prompt for problem in load_problems(world.problems_path(name))]


def manifest(world):
    return json.loads((world.directory / "world.json").read_text())


def test_sets_have_the_sizes_asked_for_and_no_question_twice(world):
    found = {name: prompts(world, name) for name in FILES}
    assert {name: len(texts) for name, texts in found.items()} == FILES
    every = [text for texts in found.values() for text in texts]
    assert len(set(every)) == len(every)


def test_unlabelled_prompts_are_of_the_two_kinds_that_rl_never_sees_without_answers(world):
    problems = load_problems(world.problems_path("unlabelled"))
    assert [dict(problem.answer) for problem in problems] == [
        {"part": part} for part in ("across", "neither") for _ in range(7)
    ]
    signs = ["+" if "+" in str(problem.prompt) else "-" for problem in problems]
    assert signs == ["+"] * 7 + ["-"] * 7


def test_the_same_seed_gives_the_same_bytes_and_more_problems_leave_the_tests(world, tmp_path):
    again = KIND.build(tmp_path / "again", seed=3, sizes=SMALL)
    more = KIND.build(tmp_path / "more", seed=3, sizes=RealSizes(train=30, in_domain=6))
    other = KIND.build(tmp_path / "other", seed=4, sizes=SMALL)
    assert manifest(again) == manifest(world)
    assert prompts(more, "in_domain") == prompts(world, "in_domain")
    assert prompts(other, "in_domain") != prompts(world, "in_domain")


def test_more_questions_than_there_are_are_refused_before_a_file_is_written(tmp_path):
    sizes = RealSizes(train=9000)
    with pytest.raises(SettingsError, match=r"there are \d+ different questions of the kind 'tr"):
        KIND.build(tmp_path / "world", seed=0, sizes=sizes)
    assert not (tmp_path / "world").exists()
    with pytest.raises(SettingsError, match="set train needs at least 1 problem, got 0"):
        RealSizes(train=0)


def test_without_the_model_one_message_says_how_to_get_it(world, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(
        SettingsError, match=r"^the task 'real' needs SmolLM2-135M-Instruct, .*make"
    ):
        KIND.train_base_model(world, tmp_path / "base_model", seed=3, steps=1)


def test_the_base_model_is_linked_and_another_directory_refused(
    world, tmp_path, language_model, monkeypatch
):
    model = tmp_path / "base_model"
    KIND.train_base_model(world, model, seed=3, steps=1)
    KIND.train_base_model(world, model, seed=3, steps=1)
    weights = model / "model.safetensors"
    assert weights.is_symlink()
    assert weights.samefile(language_model / "model.safetensors")
    with pytest.raises(SettingsError, match="not trained: leave out base_steps, got 5"):
        KIND.train_base_model(world, model, seed=3, steps=5)
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in language_model.iterdir():
        (moved / file.name).write_bytes(file.read_bytes())
    monkeypatch.setenv(VARIABLE, str(moved))
    with pytest.raises(ModelError, match="holds a model made from"):
        KIND.train_base_model(world, model, seed=3, steps=1)


def test_worked_answers_are_right_and_no_difference_is_below_0():
    rng = Random("questions")
    for name, draw in KINDS.items():
        for prompt, answer in (draw(rng) for _ in range(50)):
            terms = [int(term) for term in re.split(r" [+-] ", prompt)]
            assert int(answer) == (sum(terms) if name != "neither" else terms[0] - terms[1]) >= 0


def test_a_study_runs_on_it(tmp_path):
    sizes = {"train": 16, "in_domain": 4, "cross_domain": 4, "unlabelled": 4}
    _, _, rows = run_here(tmp_path, "real", sizes)  # dph_f rehearses right answers: it has none
    assert {row.method for row in rows.values()} == {"base", "grpo"}


@pytest.mark.slow
def test_the_real_model_is_right_in_some_sums_and_ends_its_answers(smollm2, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv(VARIABLE, str(smollm2))
    sizes = {"train": 8, "in_domain": 16, "cross_domain": 1, "unlabelled": 1}
    _, _, rows = run_here(tmp_path, "real", sizes)
    (base,) = [row for row in rows.values() if row.method == "base"]
    assert value_of(base, "pass@16", ["in_domain"]) > 0.3
    assert value_of(base, "cut_off", ["in_domain"]) < 0.3
