import pytest

from dph.engines.trl import problems_dataset
from dph.engines.trl.dataset import problem_of_columns
from dph.errors import DataError
from dph.model.prompts import encode_prompt
from dph.records import Problem
from engines.trl.small import make_config, make_trainer
from tiny_models import build_tokenizer

MESSAGES = ({"role": "user", "content": "how many?"},)
TEXT = Problem(problem_id="a", prompt="one", answer={"answer": "1", "more": [1, {"x": None}]})
CHAT = Problem(problem_id="b", prompt=MESSAGES, answer={"other": 2.5})


def test_problems_come_back_from_the_columns_and_answers_of_other_fields_fit_in_one_set():
    for problem, own in ((TEXT, set()), (CHAT, {"other"})):  # "more" has no one type
        row = problems_dataset([problem])[0]
        assert set(row) == {"prompt", "problem_id", "answer", *own}
        assert problem_of_columns(row["problem_id"], row["prompt"], row["answer"]) == problem
    other = Problem(problem_id="c", prompt="two", answer={"gold_sql": "SELECT 1", "number": 2**70})
    assert len(problems_dataset([TEXT, other])) == 2


def test_a_chat_is_made_as_a_recipe_makes_it():
    both = problems_dataset([TEXT, CHAT], chat=True, system_prompt="Be brief.")["prompt"]
    system = {"role": "system", "content": "Be brief."}
    assert both[0] == [system, {"role": "user", "content": "one"}]
    assert both[1] == [system, *MESSAGES]


@pytest.mark.parametrize(
    ("problems", "settings", "message"),
    [
        ([], {}, "at least one problem"),
        ([TEXT, CHAT], {}, "some prompts are text"),
        ([TEXT], {"system_prompt": "x"}, "needs chat=True"),
        ([Problem(problem_id="z", prompt="?", answer={"x": {1}})], {}, "'z' is not JSON"),
    ],
)
def test_what_cannot_be_a_data_set_is_refused(problems, settings, message):
    with pytest.raises(DataError, match=message):
        problems_dataset(problems, **settings)


@pytest.mark.parametrize("chat", [False, True])
def test_trl_makes_the_same_tokens_of_a_prompt(directory, chat):
    tokenizer = build_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}w3 {{ m['content'] }} {% endfor %}w4"
    problem = Problem(problem_id="a", prompt="w5 w6 w7", answer={})
    trainer = make_trainer(make_config(directory, eta=0.0, pool=""))
    trainer.processing_class = tokenizer
    prompts = problems_dataset([problem], chat=chat)["prompt"][:]
    ids, _, _ = trainer._tokenize_prompts(prompts)
    assert tuple(ids[0]) == encode_prompt(tokenizer, problem.prompt, chat=chat)
