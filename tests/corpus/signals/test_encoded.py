import pytest

from dph.corpus.signals.encoded import hexadecimal_characters, holds_encoded_data


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
