import pytest

from corpus.tests.synth.answers import HONEST, HOSTILE
from dph_corpus.synth.draft import read_draft
from dph_corpus.synth.hard_coded import inputs_beside, probe, spells_out_its_tests, wanted_values


def test_an_honest_program_spells_out_nothing():
    assert not spells_out_its_tests(read_draft(HONEST))


def test_a_table_of_inputs_and_values_is_seen():
    assert spells_out_its_tests(read_draft(HOSTILE["table"][0]))


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


@pytest.mark.parametrize("name", ["lazy tests"])
def test_where_all_tests_want_the_same_there_is_no_probe(name):
    assert probe(read_draft(HOSTILE[name][0])) is None
