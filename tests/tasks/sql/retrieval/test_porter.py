import pytest

from dph.tasks.sql.retrieval import stem

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


@pytest.mark.parametrize(
    ("word", "expected"), list(zip(EXAMPLES[::2], EXAMPLES[1::2], strict=True))
)
def test_the_examples_of_the_paper(word, expected):
    assert stem(word) == expected


@pytest.mark.parametrize("word", ["", "a", "is", "by"])
def test_short_words_are_their_own_stem(word):
    assert stem(word) == word
