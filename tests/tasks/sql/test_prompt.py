import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from math import log

import pyarrow.parquet as pq
import pytest

from dph.errors import DataError
from dph.tasks.sql.prompt import (
    BM25,
    ExampleValues,
    SQLPrompts,
    overlap_share,
    queries,
    sql_prompt,
    stem,
    terms,
)
from dph.tasks.sql.schema import (
    Column,
    ForeignKey,
    Schema,
    SchemaTable,
    read_schema,
    read_tables,
    schema_text,
)
from shared_data import shared_data
from zoo import SCHEMA_TEXT, TABLES, write_database


def matches(questions, databases, schemas):
    """How many prompts are the paper's to the character, and how many are not, by database."""
    prompts = SQLPrompts(databases=databases, schemas=schemas)
    equal, other = Counter(), Counter()
    for row in questions:
        same = prompts.prompt(row["db_id"], row["question"]) == row["prompt"]
        (equal if same else other)[row["db_id"]] += 1
    return equal, other


@pytest.mark.slow
def test_the_papers_prompts_come_out_to_the_character_where_the_database_is_complete():
    spider = shared_data("spider")
    rows = pq.read_table(spider / "dev.parquet").to_pylist()
    complete = [row for row in rows if not row["incomplete_db"]]
    schemas = read_tables(spider / "tables.json")
    equal, other = matches(complete, spider / "database", schemas)
    assert (len(complete), equal.total()) == (972, 837)
    assert other == {"world_1": 120, "voter_1": 15}


@pytest.fixture
def zoo(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps([TABLES]))
    write_database(tmp_path / "db")
    return SQLPrompts(databases=tmp_path / "db", schemas=read_tables(path))


def test_a_prompt_holds_schema_evidence_and_question(zoo):
    assert zoo.prompt("zoo", "How many {animals}?") == sql_prompt(
        SCHEMA_TEXT, "How many {animals}?"
    )
    prompt = zoo.prompt("zoo", "How many?", "big cats are tiger")
    assert "Question:\nbig cats are tiger\nHow many?\n" in prompt
    assert "example: ['tiger', 'lion']" in prompt
    assert zoo.prompt("zoo", "How many?", " ") == zoo.prompt("zoo", "How many?")


def test_a_database_without_a_schema_is_described_by_its_file(tmp_path):
    write_database(tmp_path)
    prompt = SQLPrompts(databases=tmp_path, schemas={}).prompt("zoo", "How many?")
    assert "kind TEXT, -- example: ['lion', 'tiger']" in prompt


def test_without_databases_the_schema_is_shown_with_its_own_values():
    column = Column(name="c", kind="TEXT", values=("a",))
    schema = Schema(db_id="d", tables=(SchemaTable(name="t", columns=(column,)),))
    prompts = SQLPrompts(databases=None, schemas={"d": schema})
    assert "c TEXT, -- example: ['a']" in prompts.prompt("d", "How many?")
    with pytest.raises(DataError, match="neither a database nor a schema of 'e'"):
        prompts.prompt("e", "How many?")


def test_a_missing_database_is_an_error(zoo, tmp_path):
    shutil.rmtree(tmp_path / "db" / "zoo")
    with pytest.raises(DataError, match="there is no database"):
        zoo.prompt("zoo", "How many?")


@pytest.fixture
def values_of_zoo(tmp_path):
    return ExampleValues(write_database(tmp_path))


def test_what_the_question_names_comes_first_and_whole(values_of_zoo):
    assert values_of_zoo.of("Where are the Tigers?")["animal", "kind"][:1] == ["tiger"]
    assert values_of_zoo.of("Does Cy O'Neil keep a grey wolf?")["keeper", "name"] == [
        "Cy O'Neil",
        "Ann",
        "Bob",
    ]
    # "grey wolf" has 9 characters, " wolf" 5: 5/9 is below 0.85.
    assert values_of_zoo.of("Is there a wolf?")["animal", "kind"] == ["lion", "tiger"]
    assert "42" not in values_of_zoo.of("What about 42?")["animal", "kind"]
    values = values_of_zoo.of("?")
    assert values["animal", "kind"] == ["lion", "tiger"]
    assert values["animal", "year"] == [2001, 2003]
    assert overlap_share("abcd", "xxBCDxx") == 0.75
    assert overlap_share("abc", "xyz") == 0.0


def test_long_texts_are_cut_and_not_searched(tmp_path):
    path = tmp_path / "long.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (c)")
        connection.execute("INSERT INTO t VALUES (?), (?)", ("word " * 20, b"\x00\xff"))
        connection.commit()
    values = ExampleValues(path).of("word " * 20)
    assert values["t", "c"] == ["word " * 8, b"\x00\xff"]


@pytest.fixture
def tables(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps([TABLES]))
    return path


def test_tables_json_gives_tables_columns_and_keys(tables):
    keeper, animal = read_tables(tables)["zoo"].tables
    assert keeper.columns == (
        Column(name="id", kind="number", comment="id"),
        Column(name="Name", kind="text", comment="name"),
    )
    assert keeper.primary_key == ("id",)
    assert animal.primary_key == ("id",)
    assert animal.foreign_keys == (
        ForeignKey(column="kpr", target_table="keeper", target_column="id"),
    )


def test_a_database_without_tables_json_describes_itself(tmp_path):
    schema = read_schema(write_database(tmp_path))
    assert schema.db_id == "zoo"
    keeper, animal = schema.tables
    assert [column.kind for column in animal.columns] == ["INTEGER", "TEXT", "INT", "INT"]
    assert (keeper.primary_key, animal.foreign_keys[0].target_table) == (("id",), "keeper")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "holds no list of databases"),
        ('[{"db_id": "x"}]', "entry 0: not a schema"),
        ("[3]", "entry 0: not a schema"),
        ("[", "not valid JSON"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, content, message):
    path = tmp_path / "tables.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_tables(path)


def test_what_is_no_database_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no database"):
        read_schema(tmp_path / "gone.sqlite")
    (tmp_path / "text.sqlite").write_text("no database at all, but long enough to be read as one")
    with pytest.raises(DataError, match="cannot read the database"):
        read_schema(tmp_path / "text.sqlite")


EXAMPLES = {
    ("keeper", "id"): [1, 2],
    ("keeper", "name"): ["Ann", "Bob"],
    ("animal", "id"): [1, 2],
    ("animal", "kind"): ["lion", "tiger"],
    ("animal", "year"): [2001, 2003],
    ("animal", "kpr"): [1, 2],
}


def test_a_schema_reads_as_in_the_paper(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps([TABLES]))
    assert schema_text(read_tables(path)["zoo"], EXAMPLES) == SCHEMA_TEXT


def text_of(*columns, examples=()):
    table = SchemaTable(name="t", columns=columns)
    return schema_text(Schema(db_id="d", tables=(table,)), {("t", "c"): examples})


def test_a_schemas_examples_are_at_most_six_and_what_says_nothing_is_left_out():
    text = text_of(Column(name="c", kind="text"), examples=["a", "b", "a", *"cdefg"])
    assert "example: ['a', 'b', 'c', 'd', 'e', 'f']" in text
    text = text_of(Column(name="c", kind="text", values=("x",)), examples=["a"])
    assert "example: ['a', 'x']" in text
    for comment in ("song name", "Song Name", "song_name", "", " "):
        assert "--" not in text_of(Column(name="Song_Name", kind="text", comment=comment))
    assert "-- title" in text_of(Column(name="Song_Name", kind="text", comment="title"))
    assert text_of(Column(name="c", kind="text")) == "CREATE TABLE t (\n    c text\n);"
    assert schema_text(Schema(db_id="d", tables=(SchemaTable(name="t", columns=()),)), {}) == ""


def test_texts_that_share_a_word_are_found_rare_words_and_short_texts_first():
    assert set(BM25(["a dog", "a cat", "dogs"], list("012")).search("dog", limit=9)) == {0, 2}
    assert BM25(["cat", "cat", "cat"], ["c", "a", "b"]).search("cats", limit=2) == [1, 2]
    texts = ["red house", "red car", "red boat", "blue house"]
    assert BM25(texts, list("abcd")).search("blue red", limit=4)[0] == 3
    assert BM25(["cat and many other animals", "cat"], list("ab")).search("cat", limit=2) == [1, 0]
    assert BM25([], []).search("cat", limit=3) == []
    assert BM25(["the"], ["a"]).search("the", limit=3) == []


def test_the_order_is_that_of_the_equation():
    # Two texts of lengths 1 and 3, mean 2; "cat" is in both, once and twice.
    index = BM25(["cat", "cat cat dog"], list("ab"))
    idf = log(1 + 0.5 / 2.5)
    first = idf * 1 / (1 + 0.9 * (0.6 + 0.4 * 1 / 2))
    second = idf * 2 / (2 + 0.9 * (0.6 + 0.4 * 3 / 2))
    assert index.search("cat", limit=2) == ([0, 1] if first > second else [1, 0])
    assert index._norms == pytest.approx([0.9 * 0.8, 0.9 * 1.2])


# The examples of Porter's paper, step by step, carried through all of the steps.
_TEXT = """
caresses caress  ponies poni  caress caress  cats cat  feed feed  agreed agre  plastered plaster
bled bled  motoring motor  sing sing  conflated conflat  troubled troubl  sized size  hopping hop
tanned tan  falling fall  hissing hiss  fizzed fizz  failing fail  filing file  happy happi  sky sky
relational relat  conditional condit  rational ration  valenci valenc  digitizer digit
conformabli conform  radicalli radic  differentli differ  vileli vile  analogousli analog
vietnamization vietnam  predication predic  operator oper  feudalism feudal  decisiveness decis
hopefulness hope  callousness callous  formaliti formal  sensitiviti sensit  sensibiliti sensibl
triplicate triplic  formative form  formalize formal  electriciti electr  electrical electr
hopeful hope  goodness good  revival reviv  allowance allow  inference infer  airliner airlin
gyroscopic gyroscop  adjustable adjust  defensible defens  irritant irrit  replacement replac
adjustment adjust  dependent depend  adoption adopt  homologou homolog  communism commun
activate activ  angulariti angular  homologous homolog  effective effect  bowdlerize bowdler
probate probat  rate rate  cease ceas  controll control  roll roll
"""
STEMS = _TEXT.split()


def test_the_examples_of_the_paper_and_short_words_that_are_their_own_stem():
    for word, expected in zip(STEMS[::2], STEMS[1::2], strict=True):
        assert stem(word) == expected, word
    assert [stem(word) for word in ("", "a", "is", "by")] == ["", "a", "is", "by"]


def test_terms_are_lower_case_stems_without_stop_words_and_punctuation():
    assert terms("The Singers of the U.N. and their CONCERTS") == ["singer", "u.n", "concert"]
    assert terms("1,234.5 in Song_release_year, v2") == ["1,234.5", "song_release_year", "v2"]
    assert terms("Brazil's and Brazil\u2019s") == ["brazil", "brazil"]
    assert terms("... ?!") == []


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Who's there?", ["Who", "'s", "there", "?"]),
        ("I don't.", ["I", "do", "n't", "."]),
        ('a "b", (c)', ["a", '"', "b", '"', ",", "(", "c", ")"]),
        ("at 10:30 for $5", ["at", "10:30", "for", "$", "5"]),
    ],
)
def test_a_question_is_cut_as_the_penn_treebank_is(question, words):
    assert queries(question)[: len(dict.fromkeys(words))] == list(dict.fromkeys(words))


def test_the_longest_run_has_eight_words_and_a_question_of_one_is_asked_once():
    found = queries("a b c d e f g h i j")
    # 10 + 9 + ... + 3 runs of one to eight words, and the question.
    assert len(found) == 52 + 1
    assert max(len(each.split()) for each in found[:-1]) == 8
    assert found[-1] == "a b c d e f g h i j"
    assert queries("Singers") == ["Singers"]
