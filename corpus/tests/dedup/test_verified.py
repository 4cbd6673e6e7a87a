from dph_corpus.dedup.signatures import shingle_set
from dph_corpus.dedup.work import Copy, Member, near_copies

BAND = b"12345678"


def chain(length, step):
    """Texts of which neighbours share most words, and the ends few."""
    words = [f"w{n}" for n in range(200 + length * step)]
    return [" ".join(words[n * step : n * step + 200]) for n in range(length)]


def looked_at(texts, least, bands=None):
    members = [Member(str(n), n, (bands or {}).get(n, BAND)) for n in range(len(texts))]
    sets = {str(n): shingle_set(text) for n, text in enumerate(texts)}
    forwards = near_copies(members, sets.__getitem__, least)
    assert forwards == near_copies(members[::-1], sets.__getitem__, least)
    return forwards


def test_a_chain_is_not_dropped_for_its_best_file_alone():
    # n and n + 1 share 156 of 236 shingles (.66), n and n + 2 116 of 276 (.42)
    found = looked_at(chain(5, 40), 0.6)
    assert [(copy.number, copy.kept) for copy in found] == [(1, 0), (3, 2)]
    assert found[0].value == 156 / 236


def test_of_two_kept_files_the_more_similar_one_is_named():
    first, *_, near, last = chain(5, 20)
    # shared shingles: first, last 116 of 276; near, first 136 of 256; near, last 176 of 216
    (copy,) = looked_at([first, last, near], 0.5)
    assert copy == Copy(number=2, kept=1, value=176 / 216)


def test_files_that_share_no_band_are_not_compared():
    text = chain(1, 0)[0]
    assert looked_at([text, text], 0.9, {0: b"aaaaaaaa", 1: b"bbbbbbbb"}) == []
    assert len(looked_at([text, text], 0.9)) == 1
