"""Questions and sums as lessons: who answers, and how likely each answer is."""

from collections.abc import Callable, Sequence

from dph.lab.worlds.lessons import Answerer, Lesson, answers_of
from dph.lab.worlds.sql.annotators import Annotator, chance_of_right
from dph.lab.worlds.sql.questions import CONFUSED_OPERATORS, OPERATORS, Question, read, write_answer
from dph.lab.worlds.sql.sums import FORMS, Sum

Encode = Callable[[Sequence[str]], list[list[int]]]
"""Texts to token ids, without a beginning or an end."""


def question_lesson(
    question: Question, annotators: Sequence[Annotator], encode: Encode, *, bos: int, eos: int
) -> Lesson:
    """A question, and one answer by each annotator.

    The stem is the schema, which all questions about a database share.
    """
    schema, rest = f"{question.domain.schema} |", f"{question.text} ->"
    texts = [text for a in annotators for text in _variations(question, a)]
    encoded = encode([schema, rest, *texts])
    stem, prompt = encoded[:2]
    rows = iter([*ids, eos] for ids in encoded[2:])
    answerers = []
    for annotator in annotators:
        chances = _chances(question, annotator)
        answerers.append(Answerer(next(rows), [[next(rows)] for _ in chances], chances))
    return Lesson((bos, *stem), tuple(prompt), answers_of(answerers))


def _variations(question: Question, annotator: Annotator) -> list[str]:
    """The right answer, then for each choice the one in which it alone is wrong."""
    right = {term: annotator.beliefs[term].column for term in question.terms}
    operators = tuple(OPERATORS[phrase] for phrase in question.phrases)
    readings = [read(question, right, operators)]
    for term in question.terms:
        mistaken = {**right, term: annotator.beliefs[term].mistaken}
        readings.append(read(question, mistaken, operators))
    for index in _readable_wrongly(question):
        confused = list(operators)
        confused[index] = CONFUSED_OPERATORS[question.phrases[index]]
        readings.append(read(question, right, tuple(confused)))
    return [write_answer(reading, annotator.style) for reading in readings]


def _chances(question: Question, annotator: Annotator) -> list[tuple[float, float]]:
    known = [annotator.beliefs[term].known for term in question.terms]
    phrases = [question.phrases[index] for index in _readable_wrongly(question)]
    known += [phrase not in annotator.misread for phrase in phrases]
    return [(p, 1 - p) for p in map(chance_of_right, known)]


def _readable_wrongly(question: Question) -> list[int]:
    """The places of phrases that somebody could misread."""
    return [i for i, p in enumerate(question.phrases) if CONFUSED_OPERATORS[p] != OPERATORS[p]]


def sum_lesson(item: Sum, encode: Encode, *, bos: int, eos: int) -> Lesson:
    """A sum, and an answer in each form; forms are equally likely, as for annotators."""
    chances = item.chances()
    texts = [f"{form} {number}" for form in FORMS for number in chances]
    prompt, *encoded = encode([item.prompt, *texts])
    answerers = []
    for start in range(0, len(encoded), len(chances)):
        usual, *others = ([*ids, eos] for ids in encoded[start : start + len(chances)])
        answerers.append(Answerer(usual, [others], [list(chances.values())]))
    return Lesson((bos,), tuple(prompt), answers_of(answerers))


def arithmetic_style(response: str) -> str:
    """The form that an answer is written in: "calc", "think" or "other".

    >>> arithmetic_style("think: so 7")
    'think'
    """
    label = response.partition(":")[0]
    return label if label in ("calc", "think") else "other"
