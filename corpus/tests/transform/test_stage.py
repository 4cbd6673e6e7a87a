from dph_corpus.documents import DocType, Document
from dph_corpus.transform.cleaning import make_transform


def test_a_changed_document_has_a_new_digest_and_its_changes_are_listed():
    given = Document.of(
        "# (c) 2020 A\nx = 'ida@mail.org'\n",
        id="a",
        path="a.py",
        language="python",
        doc_type=DocType.CODE,
    )
    outcome = make_transform({})(given)
    assert outcome.document == given.with_text("x = '<email>'\n")
    assert outcome.rows["changes"] == [
        {"id": "a", "kind": "email", "count": 1},
        {"id": "a", "kind": "notice", "count": 1},
    ]
    assert outcome.counts["documents changed"] == 1


def test_a_clean_document_stays_as_it_is():
    given = Document.of("x = 1\n", id="a", path="a.py", language="python")
    outcome = make_transform({})(given)
    assert outcome.document is given
    assert outcome.rows["changes"] == []
