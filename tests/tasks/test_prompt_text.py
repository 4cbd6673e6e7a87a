from dph.records import Problem
from dph.tasks.problems import prompt_text


def test_a_text_is_itself_and_a_chat_is_told_by_its_roles():
    assert prompt_text(Problem(problem_id="p", prompt=" 2 + 2?\n")) == " 2 + 2?\n"
    chat = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "2 + 2?"})
    told = prompt_text(Problem(problem_id="p", prompt=chat))
    assert told == "[system]\nbe brief\n\n[user]\n2 + 2?"
