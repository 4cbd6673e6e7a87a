import sqlite3

import pytest

from dph.errors import DataError, SettingsError
from dph_corpus.synth.seeds import (
    PROMPTS,
    database_seeds,
    document_seeds,
    seeds_digest,
    signature_seeds,
)
from small_corpora import numbered, small_corpus


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


@pytest.mark.parametrize("kind", PROMPTS)
def test_every_prompt_shows_its_seed(kind):
    (seed,) = [one for one in signature_seeds(["math"]) if one.id == "math.gcd"]
    assert seed.text in PROMPTS[kind](seed)


def test_another_seed_makes_another_digest():
    first, second = signature_seeds(["math"])[:2]
    assert seeds_digest([first]) != seeds_digest([second]) != seeds_digest([second, first])
