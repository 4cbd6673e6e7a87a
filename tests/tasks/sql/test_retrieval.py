from math import log

import pytest

from dph.tasks.sql.prompt import BM25, queries, stem, terms


def test_texts_that_share_a_word_are_found_rare_words_and_short_texts_first():
    assert set(BM25(["a dog", "a cat", "dogs"], list("012")).search("dog", limit=9)) == {0, 2}
    assert BM25(["cat", "cat", "cat"], ["c", "a", "b"]).search("cats", limit=2) == [1, 2]
    texts = ["red house", "red car", "red boat", "blue house"]
    assert BM25(texts, list("abcd")).search("blue red", limit=4)[0] == 3
    assert BM25(["cat and many other animals", "cat"], list("ab")).search("cat", limit=2) == [1, 0]
    assert BM25([], []).search("cat", limit=3) == []
    assert BM25(["the"], ["a"]).search("the", limit=3) == []


def test_the_order_is_that_of_the_equation():
    # Two texts of lengths 1 and 3, mean 2; "cat" is in both, once and twice.
    index = BM25(["cat", "cat cat dog"], list("ab"))
    idf = log(1 + 0.5 / 2.5)
    first = idf * 1 / (1 + 0.9 * (0.6 + 0.4 * 1 / 2))
    second = idf * 2 / (2 + 0.9 * (0.6 + 0.4 * 3 / 2))
    assert index.search("cat", limit=2) == ([0, 1] if first > second else [1, 0])
    assert index._norms == pytest.approx([0.9 * 0.8, 0.9 * 1.2])


# The examples of Porter's paper, step by step, carried through all of the steps.
_TEXT = """
caresses caress  ponies poni  caress caress  cats cat  feed feed  agreed agre  plastered plaster
bled bled  motoring motor  sing sing  conflated conflat  troubled troubl  sized size  hopping hop
tanned tan  falling fall  hissing hiss  fizzed fizz  failing fail  filing file  happy happi  sky sky
relational relat  conditional condit  rational ration  valenci valenc  digitizer digit
conformabli conform  radicalli radic  differentli differ  vileli vile  analogousli analog
vietnamization vietnam  predication predic  operator oper  feudalism feudal  decisiveness decis
hopefulness hope  callousness callous  formaliti formal  sensitiviti sensit  sensibiliti sensibl
triplicate triplic  formative form  formalize formal  electriciti electr  electrical electr
hopeful hope  goodness good  revival reviv  allowance allow  inference infer  airliner airlin
gyroscopic gyroscop  adjustable adjust  defensible defens  irritant irrit  replacement replac
adjustment adjust  dependent depend  adoption adopt  homologou homolog  communism commun
activate activ  angulariti angular  homologous homolog  effective effect  bowdlerize bowdler
probate probat  rate rate  cease ceas  controll control  roll roll
"""
EXAMPLES = _TEXT.split()


def test_the_examples_of_the_paper_and_short_words_that_are_their_own_stem():
    for word, expected in zip(EXAMPLES[::2], EXAMPLES[1::2], strict=True):
        assert stem(word) == expected, word
    assert [stem(word) for word in ("", "a", "is", "by")] == ["", "a", "is", "by"]


def test_terms_are_lower_case_stems_without_stop_words_and_punctuation():
    assert terms("The Singers of the U.N. and their CONCERTS") == ["singer", "u.n", "concert"]
    assert terms("1,234.5 in Song_release_year, v2") == ["1,234.5", "song_release_year", "v2"]
    assert terms("Brazil's and Brazil\u2019s") == ["brazil", "brazil"]
    assert terms("... ?!") == []


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Who's there?", ["Who", "'s", "there", "?"]),
        ("I don't.", ["I", "do", "n't", "."]),
        ('a "b", (c)', ["a", '"', "b", '"', ",", "(", "c", ")"]),
        ("at 10:30 for $5", ["at", "10:30", "for", "$", "5"]),
    ],
)
def test_a_question_is_cut_as_the_penn_treebank_is(question, words):
    assert queries(question)[: len(dict.fromkeys(words))] == list(dict.fromkeys(words))


def test_the_longest_run_has_eight_words_and_a_question_of_one_is_asked_once():
    found = queries("a b c d e f g h i j")
    # 10 + 9 + ... + 3 runs of one to eight words, and the question.
    assert len(found) == 52 + 1
    assert max(len(each.split()) for each in found[:-1]) == 8
    assert found[-1] == "a b c d e f g h i j"
    assert queries("Singers") == ["Singers"]
