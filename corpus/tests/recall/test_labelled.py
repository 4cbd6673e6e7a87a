import pytest

from dph.errors import DataError
from dph_corpus.recall.review import measure, read_labels


def test_labels_are_read_in_any_spelling(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,relevant\na,true\nb,0\nc,Yes\n")
    assert read_labels(path) == {"a": True, "b": False, "c": True}


@pytest.mark.parametrize(
    ("rows", "message"),
    [("a,maybe", "relevant must be true or false, got 'maybe'"), ("a,1\na,1", "'a' occurs twice")],
)
def test_bad_labels_are_refused(tmp_path, rows, message):
    path = tmp_path / "labels.csv"
    path.write_text(f"id,relevant\n{rows}\n")
    with pytest.raises(DataError, match=message):
        read_labels(path)


def test_what_would_divide_by_nothing_is_unknown():
    assert measure({"a": False}, set()) == (None, None)
    assert measure({"a": True}, set()) == (0.0, None)
