import hashlib

import pytest

from dph.errors import DataError
from dph_corpus.documents import FIELDS, ContentDigest, Document, position
from small_corpora import numbered


def test_size_and_digest_are_those_of_the_text_in_utf_8():
    document = Document.of("é\r\n", id="a", path="a")
    assert document.bytes == 4
    assert document.sha256 == hashlib.sha256(b"\xc3\xa9\r\n").hexdigest()
    other = document.with_text("x")
    assert (other.bytes, other.id) == (1, "a")
    assert other.sha256 == hashlib.sha256(b"x").hexdigest()


def test_a_size_that_is_given_stays():
    assert Document.of("x", id="a", path="a", bytes=9).bytes == 9


def test_half_of_a_surrogate_pair_is_no_text():
    with pytest.raises(DataError, match="a: the text is not Unicode"):
        Document.of("\ud800", id="a", path="a")


def test_positions_spread_evenly():
    # quarters of 4,000 ids: 1,000 each, standard deviation 27
    counts = [0] * 4
    for number in range(4000):
        counts[position(str(number)) >> 62] += 1
    assert all(abs(count - 1000) < 5 * 27.4 for count in counts)


def test_the_digest_of_a_set_depends_on_every_field_and_not_on_the_order():
    documents = numbered(20)

    def digest(found):
        content = ContentDigest()
        for document in found:
            content.add(document)
        return content.hex()

    assert digest(documents) == digest(documents[::-1])
    halves = ContentDigest(digest(documents[:7]))
    halves.merge(digest(documents[7:]))
    assert halves.hex() == digest(documents)
    base = documents[0].row()
    for name in FIELDS:
        if name == "text":  # which sha256 stands for
            continue
        changed = base | {name: base[name] + 1 if isinstance(base[name], int) else f"{base[name]}x"}
        assert digest([Document(**changed)]) != digest(documents[:1]), name
