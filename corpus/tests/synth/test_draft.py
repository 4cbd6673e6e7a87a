import ast
import sqlite3

import pytest

from case_tables import table
from corpus.tests.synth.answers import HONEST, HOSTILE
from dph.errors import DataError, SettingsError
from dph_corpus.settings import KINDS
from dph_corpus.synth.draft import NoDraft, read_draft
from dph_corpus.synth.hard_coded import (
    inputs_beside,
    mutants,
    probe,
    spells_out_its_tests,
    stubs,
    wanted_values,
)
from dph_corpus.synth.seeds import (
    PROMPTS,
    database_seeds,
    document_seeds,
    impurity,
    prompt_of,
    signature_seeds,
)
from small_corpora import numbered, small_corpus


def test_the_parts_of_an_answer_are_found():
    draft = read_draft(HONEST)
    assert draft.instruction == "Return the sum of the squares of the even numbers in a list."
    assert draft.entry_point == "sum_even_squares"
    assert draft.tests[1] == "assert sum_even_squares([]) == 0"
    assert len(draft.tests) == 4
    assert draft.response().startswith("```python\ndef sum_even_squares")


def test_the_text_of_a_draft_is_python_with_its_task_as_comments():
    text = read_draft(HONEST).text()
    compile(text, "row", "exec")
    assert text.startswith("# Return the sum")


def test_an_assertion_counts_once():
    again = HONEST.replace("sum_even_squares([5, 7]) == 0", "sum_even_squares([]) == 0")
    assert len(read_draft(again).tests) == 3


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "program"),
        ("x\n```python\n1 +\n```", "program"),
        ("x\n```python\nx = 1\n```", "program"),
        ("x\n```python\ndef f(): return " + "+".join("1" * 900) + "\n```", "program"),
        (HONEST.replace("assert sum", "print(1)\nassert sum"), "tests"),
        ("```python\ndef f(): pass\n```", "instruction"),
        (HONEST.replace("assert sum_even", "assert other"), "entry_point"),
    ],
)
def test_what_is_no_draft_says_what_is_missing(answer, reason):
    with pytest.raises(NoDraft, match=f"^{reason}: "):
        read_draft(answer)


def test_a_table_of_inputs_and_values_is_seen():
    assert spells_out_its_tests(read_draft(HOSTILE["table"][0]))
    assert not spells_out_its_tests(read_draft(HONEST))


def test_the_values_that_tests_want_are_counted():
    assert wanted_values(read_draft(HONEST)) == 3
    assert wanted_values(read_draft(HOSTILE["lazy tests"][0])) == 1


def test_inputs_beside_a_test_differ_from_it_in_one_constant():
    found = inputs_beside(read_draft(HONEST))
    assert [[1, 2, 3, 4]] in found
    assert [[2, 2, 3, 4]] in found
    assert [[]] in found


def test_a_probe_asks_beside_the_tests():
    program = probe(read_draft(HONEST))
    assert "lambda: sum_even_squares([" in program
    compile(program, "probe", "exec")
    assert probe(read_draft(HOSTILE["lazy tests"][0])) is None, "all want the same"


CASES = table("synth/cases.toml")
PROGRAM = CASES["program"]


def test_every_mutant_is_a_program_that_differs_from_it_in_one_place():
    found = mutants(PROGRAM, most=99)
    assert len(set(found)) == len(found) >= 15
    original = ast.unparse(ast.parse(PROGRAM)).splitlines()
    for text in found:
        changed = [
            pair for pair in zip(text.splitlines(), original, strict=True) if len({*pair}) > 1
        ]
        assert len(changed) == 1
        assert "Says 1 + 1" in text


@pytest.mark.parametrize("most", [0, 1, 5])
def test_at_most_so_many_are_spread_over_the_program(most):
    every = mutants(PROGRAM, most=99)
    found = mutants(PROGRAM, most=most)
    assert len(found) == most
    assert set(found) <= set(every)


def test_stubs_do_no_work():
    none, first = stubs(PROGRAM, "f")
    assert none == "def f(a, b=2):\n    return None"
    assert first == "def f(a, b=2):\n    return a"
    assert stubs("def f():\n    return 1", "f") == ["def f():\n    return None"]


@pytest.mark.parametrize(("source", "found"), CASES["impure"])
def test_what_reaches_outside_is_named(source, found):
    assert impurity(ast.parse(source)) == found


def test_functions_classes_and_constants_are_pure():
    assert impurity(ast.parse(CASES["pure"])) == ""


def test_documents_are_the_first_of_the_corpus(tmp_path):
    corpus = small_corpus(tmp_path / "c", numbered(9), shards=2)
    seeds = document_seeds(corpus, most=4)
    assert [seed.id for seed in seeds] == [d.id for d in corpus.documents()][:4]


def test_functions_come_with_signature_and_documentation():
    seeds = {seed.id: seed for seed in signature_seeds(["math", "textwrap"])}
    assert seeds["math.gcd"].uses == "math.gcd"
    assert seeds["textwrap.dedent"].text.startswith("textwrap.dedent(text)\n\nRemove any common")


def test_modules_that_reach_outside_are_refused():
    with pytest.raises(SettingsError, match="'os' is not among the modules"):
        signature_seeds(["math", "os"])


def test_databases_come_with_schema_and_values(tmp_path):
    (tmp_path / "pets").mkdir()
    with sqlite3.connect(tmp_path / "pets" / "pets.sqlite") as connection:
        connection.executescript("CREATE TABLE pet (name TEXT); INSERT INTO pet VALUES ('Rex');")
    connection.close()
    (seed,) = database_seeds(tmp_path)
    assert (seed.id, seed.database) == ("pets", "pets/pets.sqlite")
    assert "CREATE TABLE pet" in seed.text
    assert "Rex" in seed.text


@pytest.mark.parametrize("name", ["none", "."])
def test_a_directory_without_databases_is_refused(tmp_path, name):
    with pytest.raises(DataError, match=r"no directory of databases|has no database"):
        database_seeds(tmp_path / name)


def test_every_kind_has_a_prompt_that_shows_its_seed():
    (seed,) = [one for one in signature_seeds(["math"]) if one.id == "math.gcd"]
    assert {*KINDS} == {*PROMPTS} - {"form"}
    assert all(seed.text in prompt_of(kind, seed) for kind in KINDS)
    assert seed.uses in prompt_of("documentation", seed).partition(seed.text)[2]
    assert "at least five assertions" in prompt_of("functions", seed)
