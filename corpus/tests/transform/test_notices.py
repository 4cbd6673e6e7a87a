import pytest

from case_tables import each, table
from dph_corpus.transform.notices import STYLES, without_notice

CASES = table("transform/cases.toml")
TOOL_LINES = [(k, line) for k, lines in CASES["read_by_tools"].items() for line in lines]


@each(("language", "text", "expected"), CASES["notices"] | CASES["paragraphs"])
def test_a_leading_notice_goes_by_its_paragraphs_and_the_rest_stays(language, text, expected):
    assert without_notice(text, language) == expected
    assert without_notice(expected, language) == expected


@each(("language", "text"), CASES["kept"])
def test_what_is_no_leading_notice_stays(language, text):
    assert without_notice(text, language) == text


@pytest.mark.parametrize(("language", "line"), TOOL_LINES, ids=[line for _, line in TOOL_LINES])
def test_a_line_that_a_tool_reads_stays_before_amid_and_after_a_notice(language, line):
    mark = STYLES[language].lines[0]
    notice, rest = f"{mark} Copyright 2020 A. Person\n", f"{mark} All rights reserved.\n"
    code = "x\n"
    assert without_notice(f"{line}\n{notice}{code}", language) == f"{line}\n{code}"
    assert without_notice(f"{notice}{line}\n{code}", language) == f"{line}\n{code}"
    if line.startswith(mark):
        assert without_notice(f"{notice}{line}\n{rest}{code}", language) == f"{line}\n{code}"
