import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.signals.shared_signals import hexadecimal_characters, holds_encoded_data

BASE64 = regex.compile(r"[a-zA-Z0-9+/\n=]{64,}")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("A" * 1025 + " b" * 2000, True),  # longer than 1,024
        ("A" * 1024 + " b" * 2000, False),
        ("A" * 64 + " " + "b " * 20, True),  # 64 of 105 characters
        ("A" * 63 + " " + "b " * 20, False),  # too short to be a run
        ("0x1f,0x2e,0x3d,0x4c,0x5b,0x6a,0x79,0x88\n", True),
        ("\\u0041" * 8, True),
        ("", False),
    ],
)
def test_long_runs_and_files_full_of_them_are_encoded_data(text, holds):
    assert holds_encoded_data(text) is holds


def test_hexadecimal_numbers_count_with_their_prefix():
    assert hexadecimal_characters("a = 0x1F + 0Xab; 0xg") == 8


@given(st.text(st.sampled_from("Ab+/=\n é-"), max_size=400))
def test_runs_of_base64_are_those_of_an_expression(text):
    runs = BASE64.findall(text)
    expected = max(map(len, runs), default=0) > 1024 or sum(map(len, runs)) > 0.5 * len(text)
    assert holds_encoded_data(text) is expected


HEXADECIMAL = regex.compile(r"(?:\b(?:0x|\\x)?[0-9a-fA-F]{2}(?:,|\b\s*)){8,}")
PIECES = ("12,", "0x3d ", "\\xE9", "1f", "0xAB", "7", "abc", ",", ", ", " ", ")", "é", "\u2003")


@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_runs_of_hexadecimal_bytes_are_those_of_an_expression(pieces):
    text = "".join(pieces)
    runs = [*HEXADECIMAL.findall(text), *BASE64.findall(text)]
    assert holds_encoded_data(text) is (sum(map(len, runs)) > 0.5 * len(text))
