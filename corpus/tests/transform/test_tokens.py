"""Tokens are drawn at test time from the alphabet and length that each vendor publishes."""

import random
import string

import pytest

from case_tables import table
from dph_corpus.transform.cleaning import clean

LETTERS, UPPER = string.ascii_letters, string.ascii_uppercase + string.digits
ALPHABETS = {"letters": LETTERS, "alnum": LETTERS + string.digits, "hex": "0123456789abcdef"}
ALPHABETS |= {"upper": UPPER, "word": ALPHABETS["alnum"] + "_-"}
CASES = table("transform/cases.toml")
LONG = ["javascript", "f(1);" * 1000 + 'g("{}");' + "\n"]
PLACES = CASES["places"] | {"in a line too long to read for names": LONG}


@pytest.mark.parametrize("vendor", CASES["published"])
def test_a_token_of_a_published_form_leaves_the_text(vendor):
    form = CASES["published"][vendor]
    for place, (language, text) in PLACES.items():
        draw = random.Random(f"{vendor} {place}")
        drawn = draw.choices(ALPHABETS[form["alphabet"]], k=form["length"])
        token = "".join([*form["start"], *drawn, form["end"]])
        once = clean(text.replace("{}", token), language)
        assert token not in once.text, place
        assert sum(once.counts.values()) == 1, place
        assert clean(once.text, language).text == once.text, place


@pytest.mark.parametrize(
    "word",
    [
        "h" + "f_hub_download_of_a_file_from_a_repository",
        "h" + "f_" + "x" * 34,
        "s" + "k-ant-api03-your-key-goes-here-and-it-is-long-enough-to-be-one",
        "ris" + "k-proj-" + "a" * 50,
        "AI" + "za" + "x" * 35,
        "np" + "m_config_registry_of_all_the_packages_here",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "6fa459ea-ee8a-3ca4-894e-db77e160355e",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "sha512-" + "dBjftJeZ4CVPmB92K27uhbUJU1p1r" * 3 + "==",
        "pk" + "_live_" + "a1B2c3D4e5" * 2 + "f6G7",
    ],
)
def test_names_digests_and_stand_ins_are_no_tokens(word):
    for language, form in PLACES.values():
        text = form.replace("{}", word)
        assert clean(text, language).text == text


def test_a_token_inside_base64_is_a_part_of_it():
    image = "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAI" + "za" + "a1B2c3D4e5" * 3 + "f6G7h="
    text = f'<img src="data:image/png;base64,{image}">\n'
    assert clean(text, "html").text == text
