from collections import defaultdict
from itertools import product
from random import Random

import numpy as np
import pytest

from lab.worlds.sql.annotators import RIGHT_IF_KNOWN, WRONG_IF_UNKNOWN
from lab.worlds.sql.base_model import TextEncoder, question_lesson, sum_lesson
from lab.worlds.sql.question_sets import draw_questions
from lab.worlds.sql.questions import CONFUSED_OPERATORS, OPERATORS, read, write_answer
from lab.worlds.sql.sums import Sum, all_sums

ENCODE = TextEncoder()
BOS, EOS = 1, 2


def everything_answered(question, annotator):
    """Every answer that an annotator may give, as tokens, and how likely it is."""
    answers = defaultdict(float)
    terms, phrases = question.terms, question.phrases
    for right in product((True, False), repeat=len(terms) + len(phrases)):
        chance = 1.0
        columns, operators = {}, []
        for term, is_right in zip(terms, right, strict=False):
            belief = annotator.beliefs[term]
            p = RIGHT_IF_KNOWN if belief.known else 1 - WRONG_IF_UNKNOWN
            chance *= p if is_right else 1 - p
            columns[term] = belief.column if is_right else belief.mistaken
        for phrase, is_right in zip(phrases, right[len(terms) :], strict=True):
            p = 1 - WRONG_IF_UNKNOWN if phrase in annotator.misread else RIGHT_IF_KNOWN
            chance *= p if is_right else 1 - p
            operators.append((OPERATORS if is_right else CONFUSED_OPERATORS)[phrase])
        text = write_answer(read(question, columns, tuple(operators)), annotator.style)
        answers[(*ENCODE([text])[0], EOS)] += chance
    assert sum(answers.values()) == pytest.approx(1)
    return answers


def next_tokens(answers, prefix):
    """The distribution of the token after a beginning, over all answers that begin so."""
    chances = defaultdict(float)
    for answer, chance in answers.items():
        if answer[: len(prefix)] == prefix:
            chances[answer[len(prefix)]] += chance
    total = sum(chances.values())
    return {token: chance / total for token, chance in chances.items()}


def check_against(lesson, of_each, rng, draws=4):
    for _ in range(draws):
        tokens, likely = lesson.answers.draw(rng.random(len(lesson.answers.chances)))
        for number, answers in enumerate(of_each, start=1):
            cells = np.flatnonzero(lesson.answers.answer == number)
            drawn = tuple(int(token) for token in tokens[cells])
            assert drawn in answers
            for place, cell in enumerate(cells):
                said = defaultdict(float)
                for option, p in zip(lesson.answers.options[cell], likely[cell], strict=True):
                    said[int(option)] += p
                said = {token: p for token, p in said.items() if p > 0}
                assert said == pytest.approx(next_tokens(answers, drawn[:place]), abs=1e-12)


def test_the_chances_of_every_token_are_those_over_all_answers_of_all_annotators(world):
    questions = draw_questions(world.databases, world.annotators, 40, Random(3))
    assert {question.kind for question in questions} == {
        *("list", "count", "aggregate", "superlative", "join", "two_conditions")
    }
    rng = np.random.default_rng(0)
    for question in questions:
        lesson = question_lesson(question, world.annotators, ENCODE, bos=BOS, eos=EOS)
        of_each = [everything_answered(question, a) for a in world.annotators]
        check_against(lesson, of_each, rng)


def test_answers_are_drawn_as_often_as_annotators_give_them(world):
    (question,) = draw_questions(world.databases, world.annotators, 1, Random(5))
    lesson = question_lesson(question, world.annotators, ENCODE, bos=BOS, eos=EOS)
    rng, draws = np.random.default_rng(0), 2000
    counts = defaultdict(int)
    for _ in range(draws):
        tokens, _ = lesson.answers.draw(rng.random(len(lesson.answers.chances)))
        counts[tuple(int(t) for t in tokens[lesson.answers.answer == 2])] += 1
    for answer, chance in everything_answered(question, world.annotators[1]).items():
        # Five standard deviations of a mean of coin flips.
        spread = 5 * (chance * (1 - chance) / draws) ** 0.5
        assert counts[answer] / draws == pytest.approx(chance, abs=spread + 1 / draws)


def test_the_prompt_is_the_question_and_its_stem_the_schema(world, world_tokenizer):
    for question in draw_questions(world.databases, world.annotators, 20, Random(4)):
        lesson = question_lesson(question, world.annotators, ENCODE, bos=BOS, eos=EOS)
        assert [*lesson.stem, *lesson.prompt] == world_tokenizer(question.prompt)["input_ids"]


def test_a_sum_is_answered_in_both_forms_with_the_chances_of_a_sloppy_annotator():
    rng = np.random.default_rng(0)
    for item in (Sum(0, "got", 0), Sum(4, "got", 3), Sum(6, "got", 6), Sum(1, "lost", 0)):
        numbers = defaultdict(float)
        numbers[item.answer] += 0.6
        for slip in (-2, -1, 1, 2):
            numbers[max(0, item.answer + slip)] += 0.1
        of_each = [
            {(*ENCODE([f"{form} {n}"])[0], EOS): p for n, p in numbers.items()}
            for form in ("calc:", "think: so")
        ]
        lesson = sum_lesson(item, ENCODE, bos=BOS, eos=EOS)
        check_against(lesson, of_each, rng, draws=9)


def test_the_text_encoder_gives_the_tokenizers_ids(world, world_tokenizer):
    rng = Random(0)
    texts = [item.prompt for item in all_sums()]
    for question in draw_questions(world.databases, world.annotators, 60, Random(2)):
        texts += [question.prompt, *(a.answer(question, rng) for a in world.annotators)]
    assert ENCODE(texts) == world_tokenizer(texts, add_special_tokens=False)["input_ids"]
