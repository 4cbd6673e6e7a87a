from dph.records import Problem
from dph.results.report.answers import excerpts


def asked(prompt):
    return Problem(problem_id="p", prompt=prompt)


def test_what_all_prompts_end_with_is_left_out():
    problems = [asked(f"{x} apples\nand pears\nAnswer:") for x in ("two", "ten")]
    assert excerpts([*problems, None]) == ["two", "ten", ""]


def test_of_a_long_prompt_the_end_is_shown_from_a_word_on():
    line = excerpts([asked("schema " * 100 + "how many hotels?")])[0]
    assert line.startswith("… schema ")
    assert line.endswith("how many hotels?")
    assert len(line) <= 98


def test_a_chat_is_excerpted_by_its_last_message():
    chat = asked(({"role": "system", "content": "be brief"}, {"role": "user", "content": "2 + 2?"}))
    assert excerpts([chat]) == ["2 + 2?"]
