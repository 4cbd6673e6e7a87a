"""The prompts of stores: chosen by columns and words, made of others, and never those of a test."""

import json

import pytest

from dph._base.randomness import generator
from dph.errors import DataError, SettingsError
from dph.recipe import StoreSettings
from dph.records import Problem
from dph.runs.presample.stores.prompts import (
    GOLDS,
    Known,
    rare_words,
    recombined,
    same_prompts,
    store_prompts,
    with_new_words,
    words_of,
)

ANIMALS = ["cat", "dog", "emu", "fox", "gnu", "hen", "ibis", "jay", "kite", "lynx", "mole", "newt"]
TRAIN = tuple(
    Problem(
        problem_id=f"t{i}",
        prompt=f"How old is the {name} in cage {i}?",
        answer={"database": "zoo.sqlite", "gold_sql": "SELECT 1", "answer": "1"},
    )
    for i, name in enumerate(ANIMALS)
)


def problem(prompt, name="p", **answer):
    return Problem(problem_id=name, prompt=prompt, answer=answer)


def chat(*texts):
    roles = ["system", *["user", "assistant"] * len(texts)]
    return tuple({"role": r, "content": t} for r, t in zip(roles, texts, strict=False))


def prompts(known=None, **store):
    return store_prompts(
        "stores.s", StoreSettings(**store), known or Known(train=TRAIN, sets={}), seed=0
    )


@pytest.fixture
def file(tmp_path):
    def write(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def test_new_are_prompts_with_a_word_that_no_training_prompt_has():
    same = problem("the old cat is in the cage")
    assert with_new_words([same, problem("How old is the YAK?")], TRAIN) == [
        problem("How old is the YAK?")
    ]
    assert with_new_words([problem("CAT, cage!")], TRAIN) == []


def test_rare_are_words_of_few_prompts_and_no_numbers():
    assert rare_words(TRAIN) == sorted(ANIMALS)


def test_recombined_prompts_keep_their_form_and_lose_their_answers():
    made = recombined(TRAIN, 200, generator(0, "x"))
    texts = {p.prompt for p in TRAIN}
    assert made == recombined(TRAIN, 200, generator(0, "x"))
    assert made != recombined(TRAIN, 200, generator(1, "x"))
    assert len({p.problem_id for p in made}) == 200
    for one in made:
        words = one.prompt.rstrip("?").split()
        assert words[:4] == ["How", "old", "is", "the"]
        assert words[4] in ANIMALS
        assert one.answer == {"database": "zoo.sqlite"}
    assert {"answer", "gold_sql"} <= set(GOLDS)
    assert 50 < sum(p.prompt not in texts for p in made) < 150  # half of them are changed


def test_only_the_last_message_of_a_chat_is_changed():
    chats = [
        Problem(problem_id=f"{i}", prompt=chat("be kind to " + name, "what is a " + name))
        for i, name in enumerate(ANIMALS)
    ]
    for one in recombined(chats, 50, generator(0, "x")):
        assert one.prompt[0] in [p.prompt[0] for p in chats]
        assert set(one.prompt[1]["content"].split()) - {"what", "is", "a"} < set(ANIMALS)


def test_a_prompt_is_the_same_whatever_its_blanks_and_its_system_message():
    tests = [problem("How  old\nis it?"), problem(chat("be brief", "Who?"))]
    same = [problem(" How old is it?"), problem(chat("be verbose", "Who? "))]
    assert same_prompts(same, tests) == same
    assert same_prompts([problem("how old is it?"), problem("Who")], tests) == []


def test_prompts_of_a_test_are_no_recombined_ones_even_by_chance():
    made = prompts(prompts="recombined", file=None, limit=30)
    tests = {"dev": [problem(p.prompt) for p in made[:10]]}
    again = prompts(Known(train=TRAIN, sets=tests), prompts="recombined", limit=30)
    assert len(again) == 30
    assert not {p.prompt for p in tests["dev"]} & {p.prompt for p in again}


def test_columns_and_words_choose_and_the_limit_is_spread_over_the_file(file):
    rows = file(
        *({"problem_id": f"{i}", "prompt": f"the yak {i}", "part": "ab"[i % 2]} for i in range(9)),
        {"problem_id": "old", "prompt": "the cat", "part": "a"},
    )
    found = prompts(file=rows, only={"part": "a"}, novel=True, limit=3)
    assert [p.problem_id for p in found] == ["0", "2", "6"]
    assert len(prompts(file=rows, only={"part": "a"}, novel=True)) == 5
    with pytest.raises(DataError, match="no row left has part = 'c'; it is 'a', 'b'"):
        prompts(file=rows, only={"part": "c"})
    with pytest.raises(DataError, match=r"no prompt of .* is left with a word"):
        prompts(file=file({"problem_id": "x", "prompt": "cat"}), novel=True)


def test_a_maker_of_ones_own_gives_the_prompts():
    made = prompts(prompts="own_prompts:doubled")
    assert [p.problem_id for p in made] == [f"0-{p.problem_id}" for p in TRAIN]
    with pytest.raises(SettingsError, match="must return Problems, got 'How old"):
        prompts(prompts="own_prompts:texts")
    with pytest.raises(SettingsError, match="must return Problems, got None"):
        prompts(prompts="own_prompts:forgotten")
    with pytest.raises(SettingsError, match=r"KeyError: 'city' \(own_prompts.py, line 2\d\)"):
        prompts(prompts="own_prompts:broken")
    with pytest.raises(SettingsError, match="gave the id 'same' 12 times"):
        prompts(prompts="own_prompts:one_id")
    tests = {"dev": [problem(f"{TRAIN[0].prompt} {TRAIN[0].prompt}")]}
    with pytest.raises(DataError, match="1 of 12 prompts are prompts of the evaluation set 'dev'"):
        prompts(Known(train=TRAIN, sets=tests), prompts="own_prompts:doubled")


def test_the_beginning_is_one_prompt_or_as_many_as_are_asked_for():
    assert len(prompts(prompts="beginning")) == 1
    found = prompts(prompts="beginning", limit=3)
    assert len({p.problem_id for p in found}) == 3
    assert words_of(found[0]) == frozenset()


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ({"prompts": "nowhere"}, "should be one of 'unlabelled'"),
        ({"prompts": "train", "file": "x.jsonl"}, "does not read a file"),
        ({"prompts": "beginning", "tilt": 1.0}, "answer no question"),
        ({"tilt": 1.0, "answers": 1}, "at least 2 answers a prompt, got answers=1"),
        (
            {"targets": "answers", "values": "distinct"},
            "values='distinct' chooses none: set values to one of 'majority', 'correct'",
        ),
        (
            {"targets": "answers", "values": "majority", "tilt": 2.0},
            "no distributions to tilt: set tilt = 0, got tilt=2",
        ),
        ({"targets": "answers", "values": "correct", "prompts": "beginning"}, "answer no question"),
        (
            {"targets": "answers", "values": "majority", "answers": 1},
            "at least 2 answers a prompt, got answers=1",
        ),
        ({"values": "vote"}, "'agreement', 'distinct', 'majority', 'shuffled'"),
        ({"targets": "texts"}, "'distributions' or 'answers'"),
        ({"top": 0}, "a whole number from 1, or 'all', got 0"),
        ({"top": "some"}, "'all'"),
        ({"tilt": -1.0}, "greater than or equal to 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(store, message):
    with pytest.raises(ValueError, match=message):
        StoreSettings(**store)
