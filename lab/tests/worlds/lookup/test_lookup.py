"""The world ``lookup``: its tools, its demonstrations, and a policy that learns to ask in it."""

from random import Random

import pytest

from dph import Outcome, make_verifier
from dph._base.files import sha256
from dph.runs.progress import Silent
from dph.tasks.environments import Environment
from dph.tasks.problems import load_problems
from lab.quickstart.recipes import Size
from lab.quickstart.run import quickstart
from lab.worlds.lookup.base_model import Demonstrations, make_tokenizer
from lab.worlds.lookup.house import (
    OTHERS,
    PEOPLE,
    PLACES,
    TRAINED,
    WAYS,
    House,
    answer_of,
    turns_of,
)
from lab.worlds.lookup.kind import SETS, TOKENS, TURN_TOKENS, LookupSizes, build_world
from lab.worlds.small_model import NO_TARGET
from lab.worlds.world import UNLABELLED


def all_turns():
    for way in ("", *WAYS):
        for thing in (*TRAINED, *OTHERS):
            yield turns_of(way, thing, PLACES[0], PEOPLE[0])


def test_every_way_finds_the_thing_through_the_tools(tmp_path):
    world = build_world(tmp_path, seed=1, sizes=LookupSizes(train=2, in_domain=1, cross_domain=1))
    problem = next(iter(load_problems(world.problems_path("train"))))
    thing, place, owner = (problem.answer[name] for name in ("thing", "place", "owner"))
    with (
        Environment(House, form="plain", hidden=["answer"]) as environment,
        make_verifier("exact") as verifier,
    ):
        for way in WAYS:
            said = turns_of(way, thing, place, owner)
            with environment.begin(problem) as episode:
                for (text, _), (told, _) in zip(said[:-1:2], said[1::2], strict=True):
                    (result,) = episode.step(text)
                    assert f"RESULT {result.text}" == told
                assert episode.step(said[-1][0]) == []
                assert " ".join(episode.order) == way
            (verdict,) = verifier.grade([problem], [episode.answer])
            assert verdict.outcome is Outcome.CORRECT


def test_a_wrong_thing_or_person_tells_nothing():
    house = House()
    house.reset(thing="cup", place="hall", owner="anna", prompt="where is cup ?")
    assert (house.look("map"), house.ask("map"), house.owner("map")) == (*["nothing"] * 2, "nobody")
    assert house.room("ben") == "nothing"


def test_texts_come_back_from_their_tokens_and_fit_the_limits():
    tokenizer = make_tokenizer()
    for turns in all_turns():
        sizes = [len(tokenizer.encode(text, add_special_tokens=False)) for text, _ in turns]
        for text, own in turns:
            ids = tokenizer.encode(text, add_special_tokens=False)
            assert tokenizer.unk_token_id not in ids
            assert not own or tokenizer.decode(ids) == text
        assert all(size + 1 <= TURN_TOKENS for size in sizes)
        # A turn is drawn only where a whole one fits.
        assert sum(sizes[:-1]) + len(turns) // 2 + TURN_TOKENS <= TOKENS


def test_demonstrations_teach_the_policys_tokens_alone():
    tokenizer = make_tokenizer()
    (batch,) = Demonstrations(tokenizer).batches(Random(0), steps=1)
    seen = 0
    for rows in batch:
        for ids, targets in zip(rows.input_ids.tolist(), rows.targets.tolist(), strict=True):
            whole = [*ids, targets[-1]]
            taught = [t for t in targets if t != NO_TARGET]
            text = " ".join(tokenizer.convert_ids_to_tokens(taught))
            assert "RESULT" not in text
            assert text.endswith(f"{tokenizer.eos_token}")
            assert whole[0] == tokenizer.bos_token_id
            seen += 1
    assert seen == 96


def test_a_question_does_not_tell_its_answer_and_sets_keep_their_things(tmp_path):
    sizes = LookupSizes(train=100, in_domain=10, cross_domain=10, unlabelled=10)
    world = build_world(tmp_path / "a", seed=1, sizes=sizes)
    again = build_world(tmp_path / "b", seed=1, sizes=sizes)
    for name in ("train", *SETS, UNLABELLED):
        assert sha256(world.problems_path(name)) == sha256(again.problems_path(name))
        things = OTHERS if name in ("cross_domain", UNLABELLED) else TRAINED
        for problem in load_problems(world.problems_path(name)):
            assert problem.prompt == f"where is {problem.answer['thing']} ?"
            assert problem.answer["thing"] in things
            gold = None if name == UNLABELLED else answer_of(problem.answer["place"])
            assert problem.answer.get("answer") == gold
    # One question has every answer: nobody can know it.
    train = list(load_problems(world.problems_path("train")))
    places = {p.answer["place"] for p in train if p.answer["thing"] == train[0].answer["thing"]}
    assert places == set(PLACES)


@pytest.mark.slow
def test_a_base_model_at_chance_learns_to_ask(tmp_path):
    size = Size(
        world=LookupSizes(train=64, in_domain=32, cross_domain=8),
        steps=25,
        problems_per_step=8,
        samples=4,
    )
    found = quickstart(
        tmp_path, methods=["grpo"], seed=1, progress=Silent(), task="lookup", size=size, jobs=1
    )
    before, after = (
        sets["sets"]["in_domain"] for sets in (found["base"], found["methods"]["grpo"])
    )
    assert before["greedy"] < 0.35  # chance is 1/8; of 32 questions, 11 are right once in 1,000
    assert after["greedy"] > 0.8
    assert {"look", "ask", "owner room"} <= before["styles"].keys()
