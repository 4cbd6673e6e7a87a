import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.sql.extraction import SQLSource, extract_sql
from dph.tasks.verifiers.sql.tokens import TokenKind, first_word, tokenize
from tasks.test_styles import QUICKSTART


def texts(sql):
    return [token.text for token in tokenize(sql)]


def test_words_literals_names_and_symbols_are_told_apart():
    kinds = [token.kind for token in tokenize("SELECT \"a b\", `c`, [d], 'e', 1.5e3 <> x'41'")]
    names = [TokenKind.QUOTED_NAME, TokenKind.SYMBOL] * 3
    rest = [TokenKind.STRING, TokenKind.SYMBOL, TokenKind.NUMBER, TokenKind.SYMBOL]
    assert kinds == [TokenKind.WORD, *names, *rest, TokenKind.WORD, TokenKind.STRING]
    words = [token.word for token in tokenize("a 'SELECT' -- FROM\n /* WHERE */ \"IN\" b")]
    assert [word for word in words if word] == ["A", "B"]
    assert texts("'it''s' \"a\"\"b\" [c]]") == ["'it''s'", '"a""b"', "[c]", "]"]
    assert texts("let's see 'x'") == ["let", "'", "s", "see", "'x'"]
    assert texts("name LIKE'x'") == ["name", "LIKE", "'x'"]
    assert [(t.text, t.depth) for t in tokenize("a ( b ( c ) ) d ) e")] == [
        ("a", 0), ("(", 0), ("b", 1), ("(", 1), ("c", 2), (")", 1), (")", 0), ("d", 0),
        (")", 0), ("e", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "word"),
    [("-- why\n/* how */ with x", "WITH"), ("", ""), ("(select 1)", ""), ("/* open", "")],
)
def test_the_first_word_skips_blanks_and_comments(sql, word):
    assert first_word(sql) == word


@given(st.text(alphabet="aS1 '\"`[]()-/*\n;.,é", max_size=60))
def test_tokens_are_in_order_and_are_the_text_at_their_place(text):
    end = 0
    for token in tokenize(text):
        assert token.start >= end
        assert text[token.start : token.end] == token.text != ""
        end = token.end


@pytest.mark.parametrize("piece", ["'", '"', "[", "`", "(", "/*", "--", "'x", "'' ", "1e", "*/"])
def test_hostile_text_is_read_in_time_that_grows_with_its_length(piece):
    started = time.thread_time()
    for _ in tokenize(piece * 50_000):
        pass
    assert time.thread_time() - started < 5


CALL = '<tool_call>{"name": "run", "arguments": %s}</tool_call>'


def statement(response):
    found = extract_sql(response)
    return found and found.statement


@pytest.mark.parametrize(("label", "sql"), QUICKSTART.items())
def test_a_label_or_working_before_the_statement_is_dropped(label, sql):
    working = sql.partition("SELECT")[0] if label == "steps" else ""
    found = extract_sql(f"{label}: {sql}")
    assert found.preamble == f"{label}: {working}"
    assert found.statement == sql.removeprefix(working)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a\nFROM t\nUNION ALL\nSELECT b FROM u",
        "WITH c AS (\n  SELECT 1\n)\nSELECT * FROM c",
        "WITH RECURSIVE c(n) AS (\nSELECT 1\nUNION\nSELECT n + 1 FROM c)\n\nSELECT * FROM c",
        "select ';' , ': select 2' from t",
        "SELECT a FROM t WHERE b IN (\nSELECT c FROM u\n)",
        "SELECT 1 -- ; SELECT 2",
    ],
)
@pytest.mark.parametrize("around", ["{}", "{};", "Let's see. It's this:\n{}", "```sql\n{}\n```"])
def test_one_statement_comes_out_whole(sql, around):
    assert statement(around.format(sql)).removesuffix(";") == sql


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        # The last bare statement counts.
        ("The answer is SELECT 1", "SELECT 1"),
        ("The query (SELECT 1) does it; it works.", "SELECT 1"),
        ("Go on with the singers: SELECT 1", "SELECT 1"),
        ("Select the singer's names:\nSELECT 1", "SELECT 1"),
        ("SELECT 1; SELECT 2", "SELECT 2"),
        ("SELECT 1\nSELECT 2", "SELECT 2"),
        ("WITH a AS (SELECT 1) SELECT 2\nSELECT 3", "SELECT 3"),
        ("SELECT 1; that is all", "SELECT 1"),
        ("sad :( SELECT 1 ; done", "SELECT 1"),
        *((text, None) for text in ("", " \n", "forty two", "with singers over 20", "selection")),
        *((text, None) for text in ("```sql\n\n```", "'")),
        # A fenced block is taken as it is, whatever its fence and dialect.
        ("```sql\nSELECT 1\n```\nno:\n```sql\nSELECT 2\n```\nas SELECT 3", "SELECT 2"),
        ("```SQL\r\nSELECT 1\r\n```", "SELECT 1"),
        ("so\n```sql\nSELECT 1", "SELECT 1"),
        ("```sql SELECT 1 ```", "SELECT 1"),
        ("```\nSELECT 1\n```", "SELECT 1"),
        ("```sql\nSELECT 1\n```\n```\nSELECT 2\n```", "SELECT 1"),
        ("```\nSELECT 1\n```\n```\n1 row\n```", "SELECT 1"),
        ("```python\nx = 1\n```\nSELECT 2", "SELECT 2"),
        ("```sql\n```\nSELECT 1", "SELECT 1"),
        ("```sql\nDROP TABLE singer\n```", "DROP TABLE singer"),
        ("```sql\nSELECT 1; SELECT 2\n```", "SELECT 1; SELECT 2"),
        ("~~~sql\nSELECT 1\n~~~", "SELECT 1"),
        ("~~~\nSELECT 1\n~~~\nso", "SELECT 1"),
        ("about ~~~ 3\n```sql\nSELECT 1\n```", "SELECT 1"),
        ("~~~sql\nSELECT '```'\n~~~", "SELECT '```'"),
        ("````sql\nSELECT 1\n````", "SELECT 1"),
        ("```sqlite3\nSELECT 1\n```", "SELECT 1"),
        ("```PostgreSQL\nSELECT 1\n```", "SELECT 1"),
        ("```sql\nSELECT 1\n```sql\nSELECT 2\n```", "SELECT 2"),  # the first was never closed
        ("```\r\nselect 1\r\n```\r\n", "select 1"),
        ("```sql\nSELECT 1\n\n~~~", "SELECT 1\n\n~~~"),
        # An answer element comes before anything else.
        ("<answer>SELECT 1</answer>", "SELECT 1"),
        ("```sql\nSELECT 1\n```\n<answer>\nSELECT 2;\n</answer>", "SELECT 2"),
        ("<answer>```sql\nSELECT 1\n```</answer> ```sql\nSELECT 2\n```", "SELECT 1"),
        ("<ANSWER>SELECT 1", "SELECT 1"),
        ("<answer>SELECT 1<answer>SELECT 2</answer>", "SELECT 2"),
        ("<answer>SELECT 1</answer><answer>none</answer>", "SELECT 1"),
        ("<answer>42</answer>\n```sql\nSELECT 1\n```", "SELECT 1"),
        ("</answer> SELECT 1", "SELECT 1"),
        # A tool call holds the statement as an argument.
        (CALL % '{"sql": "SELECT 1"}', "SELECT 1"),
        (CALL % '{"db": "x", "query": "SELECT \\"a\\"\\n"}', 'SELECT "a"'),
        (CALL % '"{\\"sql\\": \\"SELECT 1\\"}"', "SELECT 1"),
        (CALL % '{"sql": "SELECT 1"}' + CALL % '{"sql": "SELECT 2"}', "SELECT 2"),
        (CALL % '{"sql": "SELECT 1"}' + CALL % '{"path": "x"}', "SELECT 1"),
        ('<tool_call>{"sql_query": "SELECT 1"}', "SELECT 1"),
        ('{"name": "run", "parameters": {"statement": "SELECT 1"}}', "SELECT 1"),
        (CALL % '{"sql": "SELECT 1"}' + "\n```sql\nSELECT 2\n```", "SELECT 2"),
        (CALL % '{"sql": "..."}' + "\nso SELECT 2", "SELECT 2"),
        ("<tool_call>{broken</tool_call> SELECT 2", "SELECT 2"),
        ('<tool_call>["SELECT 1"]</tool_call>\nSELECT 2', "SELECT 2"),
        (CALL % "7" + "\nSELECT 2", "SELECT 2"),
        # An apostrophe of prose hides no fence.
        ("SELECT 'a ``` select b ``` c' FROM t", "SELECT 'a ``` select b ``` c' FROM t"),
        ("```sql\nSELECT 'abc FROM t\n```\nThis doesn't ``` work", "SELECT 'abc FROM t"),
        ("It's done: ```SELECT 1``` isn't it ```SELECT 2```", "SELECT 2"),
        ("It's `x`. ```sql\nSELECT 1\n``` Isn't it", "SELECT 1"),
        ("```sql\nSELECT a WHERE a = 'it's ```\nwhat's that ``` x", "SELECT a WHERE a = 'it's"),
        ('He said "use ```SELECT 1``` now", no', "SELECT 1"),
        # Inline code holds the statement where no line begins with one.
        ("`SELECT 1`", "SELECT 1"),
        ("Use `SELECT name FROM t;` here, of the `t` table.", "SELECT name FROM t"),
        ("Use `SELECT 'a ` b' FROM t` here", "SELECT 'a ` b' FROM t"),
        ("Use ``SELECT 'a ` b' FROM t`` here", "SELECT 'a ` b' FROM t"),
        ("Answer: `SELECT replace(a, '`', '') FROM t`", "SELECT replace(a, '`', '') FROM t"),
        ("It is `SELECT `name` FROM `t`` here", "SELECT `name` FROM `t`"),
        ("We select it: `SELECT a FROM t`, not `SELECT b FROM t`.", "SELECT b FROM t"),
        ("First `SELECT a FROM t`.\nSELECT b FROM t", "SELECT b FROM t"),
        # JSON that holds no statement hides none.
        (
            '{"query": "how many singers are there"}\nSELECT count(*) FROM singer',
            "SELECT count(*) FROM singer",
        ),
        ('```sql\nSELECT 1\n```\n{"sql": "SELECT 2"}', "SELECT 1"),
        ('{"name": "get_schema", "arguments": {}}', None),
        ('{"sql": "<your SQL here>"}', None),
        ('{"sql": null, "sqls": 3}', None),
        ('{"sql": "SELEC name"}', "SELEC name"),
        ('{"note": "we select with care"}', None),
    ],
)
def test_a_response_gives_its_statement(response, expected):
    assert statement(response) == expected


@given(st.text(alphabet="selectwithas SELECT;:\n`'()x", max_size=80))
def test_the_preamble_and_the_statement_are_parts_of_the_response(text):
    found = extract_sql(text)
    if found is not None:
        assert found.statement
        assert text.startswith(found.preamble)
        assert found.statement in text[len(found.preamble) :]


HOSTILE = (
    *("```", "```sql\n", "SELECT\n", "WITH a AS (", "with ", "with " + "a" * 99, "' ", ";("),
    *(
        *("~~~\n", "<answer>", "<answer>SELECT", "<tool_call>{", "your sql ", "[" * 50),
        *("...", "-- x\n"),
    ),
    *(
        *("`select ", "``with '", "'```", "select '```' ", "`select [ ", "''", '"a'),
        *("'a ", "`select `a` "),
    ),
    *(
        *('{"', '{"a":', '{"a":1}', '"sql":"', '"sql":"""', '{"sql":"\\\\', "'sql':'a", "[{"),
        *("a:\n", "</"),
    ),
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_responses_are_read_in_time_that_grows_with_their_length(piece):
    text = piece * (50_000 // len(piece))
    started = time.process_time()  # of this process alone, whatever else the machine does
    for around in ("{}", "```sql\n{}\n```", "<answer>{}</answer>", "`select {} x"):
        extract_sql(around.replace("{}", text))
    assert time.process_time() - started < 60  # as its square: hours


PLACEHOLDERS = [
    "-- Your SQL query",
    "-- your sql here\n/* only this */",
    *("...", "…", "<your SQL query here>", "[Your SQL]", "your query goes here", "SELECT ..."),
    *("SELECT ... FROM ...", "INSERT YOUR SQL HERE"),
]


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_the_instructions_own_placeholder_is_no_answer(placeholder):
    block = f"```sql\n{placeholder}\n```"
    assert extract_sql(block) is None
    assert statement(f"```sql\nSELECT 1\n```\nin the format\n{block}") == "SELECT 1"
    assert statement(f"in the format\n{block}\nI say:\nSELECT 2") == "SELECT 2"
    answer = f"<answer>{placeholder}</answer>"
    assert extract_sql(answer) is None
    assert statement(f"<answer>SELECT 1</answer> like {answer}") == "SELECT 1"


@pytest.mark.parametrize(
    "sql",
    [
        "-- singers\nSELECT 1",
        "SELECT '...'",
        "SELECT your, query FROM here",
        "INSERT INTO query VALUES (1)",
        "SELECT 1 -- your SQL query",
    ],
)
def test_sql_that_looks_a_little_like_a_placeholder_is_sql(sql):
    assert statement(f"```sql\n{sql}\n```") == sql


def test_only_the_named_places_are_looked_at_in_the_order_given():
    response = "<answer>SELECT 1</answer>\n```sql\nSELECT 2\n```\nSELECT 3\n" + (
        CALL % '{"sql": "SELECT 4"}'
    )
    for source, sql in [("answer", 1), ("fenced", 2), ("tool_call", 4)]:
        assert extract_sql(response, [SQLSource(source)]).statement == f"SELECT {sql}"
    both = [SQLSource.TOOL_CALL, SQLSource.ANSWER]
    assert extract_sql(response, both).statement == "SELECT 4"
    assert extract_sql("SELECT 1", [SQLSource.FENCED]) is None
    assert extract_sql(response, []) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'a ``` b' FROM t",
        'SELECT "a ``` b" FROM t',
        "SELECT [a ``` b] FROM t",
        "SELECT '```', 'it''s ``` x' FROM t",
        "SELECT 'a ```sql b' FROM t",
        "SELECT a FROM t WHERE b = 'x ~~~ y'",
        "SELECT replace(a, '`', '``') FROM t",
        "SELECT 'a ` b' FROM t",
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        *("```sql\n{}\n```", "```sql {}```", "```\n{}\n```\nIt isn't `b`.", "~~~sql\n{}\n~~~"),
        *("<answer>{}</answer>", "<answer>```sql\n{}\n```</answer>", "So:\n{}"),
        "```sql\nSELECT 1\n```\nNo, it's\n```sql\n{}\n```\nThat's `all`.",
    ],
)
def test_backticks_inside_of_a_literal_belong_to_the_statement(sql, around):
    assert statement(around.format(sql)) == sql


def test_the_end_of_an_endless_response_is_searched():
    fence = "```sql\nSELECT 1\n```"
    started = time.thread_time()
    assert extract_sql("{" * 20_000_000 + fence).statement == "SELECT 1"
    assert extract_sql(fence + "(" * 20_000_000) is None
    assert time.thread_time() - started < 20


JSON_ANSWERS = [
    '{{"sql": "{}"}}',
    '{{"SQL": "{}"}}',
    '{{"Final SQL": "{}"}}',
    '```json\n{{"thoughts": "select the names", "sql_query": "{}"}}\n```',
    'Here it is: {{"query": "{}"}} It lists them.',
    '{{"reasoning": "by age"}}\n{{"sql": "{}"}}',
    '{{"sql": "SELECT 0"}} is wrong, rather {{"sql": "{}"}}',
    '[{{"step": 1}}, {{"result": {{"sql": "{}"}}}}]',
    '{{"query": "Which singers?", "sql": "{}", "dialect_sql": "sqlite"}}',
    '{{"answer": "{}", "confidence": 0.9}}',
    '{{"sql": "```sql\\n{}\\n```"}}',
    '{{"name": "run", "arguments": "{{\\"sql\\": \\"{}\\"}}"}}',
    '```json\n{{"sql": "{}",}}\n```',
    "{{'sql': '{}'}}",
    '{{"set": {{1}}, "sql": "{}"}}',
]


@pytest.mark.parametrize("answer", JSON_ANSWERS)
@pytest.mark.parametrize("sql", ["SELECT name FROM singer", "WITH a AS (SELECT 1) SELECT * FROM a"])
def test_the_field_that_names_sql_holds_the_statement(answer, sql):
    assert statement(answer.format(sql)) == sql


@pytest.mark.parametrize(
    "after",
    [
        "</FINAL_ANSWER>",
        "\n</sql>\nIt lists them.",
        "<|im_end|>",
        "<|endoftext|>Question: and now?",
        "</s>",
        " [/INST]",
        "[/SQL]",
        "\nSQLResult: 3",
        "\nAnswer: there are 3, or select one",
        "\n\nFinal answer : 3",
        "\n### Explanation\nIt lists them.",
        "\n**Explanation:** it lists them",
        "**",
    ],
)
@pytest.mark.parametrize("before", ["", "SQLQuery: ", "<FINAL_ANSWER>\n", "**"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM singer WHERE note <> 'a\nlabel: </b> <|c|> ** ##'",
        'SELECT a <b, c, "x\ny: z" FROM t WHERE d =\n:e',
        "SELECT CASE WHEN a < 1 THEN -1 ELSE 2 END\nFROM t\nWHERE a / 2 > 1",
    ],
)
def test_a_closing_mark_or_a_label_ends_a_statement(before, sql, after):
    assert statement(before + sql + after) == sql
