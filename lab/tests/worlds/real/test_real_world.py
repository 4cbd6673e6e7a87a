"""The files of the real world, its base model, and a quickstart on it with a random model."""

import json

import pytest

from dph.errors import DataError, ModelError, SettingsError
from dph.runs.progress import Silent
from dph.tasks.problems import load_problems
from lab.quickstart.recipes import Size, parse_contender, quickstart_recipe, world_tables
from lab.quickstart.run import quickstart
from lab.smollm2 import VARIABLE
from lab.worlds import WORLDS, world_kind
from lab.worlds.real.kind import BUDGET, REAL, TINY, RealSizes
from lab.worlds.real.tasks import TASKS, GymKind
from smollm2_model import smollm2  # noqa: F401

SMALL = RealSizes(train=20, in_domain=6, cross_domain=5, unlabelled=7)
FILES = {"shots": 4, "train": 20, "in_domain": 6, "cross_domain": 5, "unlabelled": 14}
KIND = world_kind("real")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("real") / "world"


@pytest.fixture
def world(directory):
    return KIND.build(directory, seed=3, sizes=SMALL)


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


def test_near_duplicates_of_tests_are_counted(world):
    # Sums have one form, that of a test; differences have another.
    assert manifest(world)["near_duplicates"] == {"train": 20, "across": 7, "neither": 0}


def test_the_same_seed_gives_the_same_bytes_and_more_problems_leave_the_tests(world, tmp_path):
    again = KIND.build(tmp_path / "again", seed=3, sizes=SMALL)
    more = KIND.build(tmp_path / "more", seed=3, sizes=RealSizes(train=30, in_domain=6))
    other = KIND.build(tmp_path / "other", seed=4, sizes=SMALL)
    assert manifest(again) == manifest(world)
    assert prompts(more, "in_domain") == prompts(world, "in_domain")
    assert prompts(other, "in_domain") != prompts(world, "in_domain")


@pytest.mark.usefixtures("world")
def test_a_whole_world_is_kept_and_another_one_refused(directory):
    before = directory.joinpath("world.json").stat().st_mtime_ns
    KIND.build(directory, seed=3, sizes=SMALL)
    assert directory.joinpath("world.json").stat().st_mtime_ns == before
    with pytest.raises(DataError, match="seed=3, not 4"):
        KIND.build(directory, seed=4, sizes=SMALL)


def test_more_questions_than_there_are_are_refused_before_a_file_is_written(tmp_path):
    sizes = RealSizes(train=9000)
    with pytest.raises(SettingsError, match=r"'sums' has \d+ different questions of the kind 'tr"):
        KIND.build(tmp_path / "world", seed=0, sizes=sizes)
    assert not (tmp_path / "world").exists()
    with pytest.raises(SettingsError, match="set train needs at least 1 problem, got 0"):
        RealSizes(train=0)


def test_without_the_model_one_message_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(
        SettingsError, match=r"^the task 'real' needs SmolLM2-135M-Instruct, .*make"
    ):
        quickstart(tmp_path / "out", methods=["grpo"], seed=0, progress=Silent(), task="real")
    assert not (tmp_path / "out").exists()


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


def recipe(method, world, tmp_path, task="real"):
    kind = world_kind(task)
    return quickstart_recipe(
        parse_contender(method, kind.strengths),
        world_tables(kind, world, method, tmp_path / "stores"),
        base_model=tmp_path / "base_model",
        pool=tmp_path / "pool",
        seed=3,
        size=Size(**kind.budget),
    )


def test_a_recipe_asks_by_examples_and_ends_an_answer_at_its_line(world, tmp_path):
    found = recipe("grpo", world, tmp_path)
    assert found.data.shots.file == world.problems_path("shots")
    assert (found.data.shots.template, found.data.shots.answer) == (
        "{prompt} = {answer}\n",
        "shown",
    )
    assert (found.sampling.stop, found.sampling.max_rows) == (("\n",), 64)
    assert (found.train.problems_per_step, found.train.learning_rate) == (8, 5e-6)
    assert not found.consolidation.active


def test_broad_rehearsal_counts_votes_and_consolidates_for_a_tenth_of_its_usual_time(
    world, tmp_path
):
    found = recipe("dph_broad", world, tmp_path)
    assert {name: store.values for name, store in found.stores.items()} == {
        "broad": "agreement",
        "after": "agreement",
    }
    assert (found.consolidation.updates, found.consolidation.rows) == (20, 64)
    (anchor,) = found.objective.active_anchors.values()
    assert (anchor.weight, anchor.per_step) == (0.02, 48)


def test_every_task_is_a_world_and_its_three_kinds_are_of_different_questions():
    assert REAL.keys() == {"real", *(f"real-{name}" for name in TASKS if name != "sums")}
    assert REAL.keys() <= WORLDS.keys()
    for name, task in TASKS.items():
        assert task.template.endswith("{answer}\n"), name
        kinds = (task.trained, task.across, task.neither)
        gym = [isinstance(kind, GymKind) for kind in kinds]
        assert any(gym) == (task.verifier == "reasoning_gym") == (task.agreement is not None)


def test_a_task_of_reasoning_gym_is_graded_by_its_own_scorer(tmp_path):
    pytest.importorskip("reasoning_gym")
    kind = world_kind("real-chain-sum")
    sizes = RealSizes(train=3, in_domain=2, cross_domain=2, unlabelled=2)
    world = kind.build(tmp_path / "world", seed=0, sizes=sizes)
    (first, *_) = load_problems(world.problems_path("train"))
    assert first.answer["gym_task"] == "chain_sum"
    assert first.answer["shown"] == first.answer["answer"]
    assert "\n" not in first.prompt
    found = recipe("dph_broad", world, tmp_path, "real-chain-sum")
    assert found.data.verifier == "reasoning_gym"
    assert found.stores["after"].agreement == "lab.worlds.real.tasks:answer_text"


def test_the_quickstart_runs_on_it_without_and_with_unlabelled_prompts(tmp_path):
    methods = ["grpo", "dph_broad"]  # dph_f rehearses right answers, and a random model has none
    summary = quickstart(
        tmp_path,
        methods=methods,
        seed=0,
        progress=Silent(),
        task="real",
        size=Size(world=TINY, steps=1, problems_per_step=2, samples=16, threshold=1),
    )
    assert list(summary["methods"]) == methods
    assert all(list(found["sets"]) == list(KIND.sets) for found in summary["methods"].values())


def test_a_quickstart_has_the_budget_of_its_world(tmp_path, monkeypatch):
    asked = {}

    def ended(*_, **more):
        asked.update(more)
        raise SettingsError("seen")

    monkeypatch.setattr("lab.quickstart.run.quickstart_recipe", ended)
    with pytest.raises(SettingsError, match="seen"):
        quickstart(tmp_path, methods=["grpo"], seed=0, progress=Silent(), task="real")
    assert asked["size"] == Size(**BUDGET)


@pytest.mark.slow
def test_the_real_model_is_right_in_some_sums_and_ends_its_answers(smollm2, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv(VARIABLE, str(smollm2))
    sizes = RealSizes(train=8, in_domain=16, cross_domain=1, unlabelled=1)
    summary = quickstart(
        tmp_path,
        methods=["grpo"],
        seed=0,
        progress=Silent(),
        task="real",
        size=Size(world=sizes, steps=1, problems_per_step=2, samples=16, threshold=1),
    )
    scores = summary["base"]["sets"]["in_domain"]
    assert scores["pass_at_k"]["16"] > 0.3
    assert scores["cut_off"] < 0.3
