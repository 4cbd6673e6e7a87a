import pytest

from corpus.tests.recall.planted_pages import pages, seeds
from dph_corpus.recall.run import recall
from dph_corpus.settings import RecallSettings
from killed_corpora import kill
from small_corpora import bytes_of, small_corpus

CHILD = """
import sys
from pathlib import Path
from dph_corpus.recall.run import recall
from dph_corpus.settings import RecallSettings
from dph_corpus.shards import open_corpus
here = Path(sys.argv[1])
recall(open_corpus(here / "pages"), open_corpus(here / "seeds"), here / "killed",
       settings=RecallSettings(vocabulary=600), patterns=here / "reviewed.csv")
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_bytes(tmp_path):
    (tmp_path / "reviewed.csv").write_text("pattern,accept\n%/questions/%,yes\n")
    source = small_corpus(tmp_path / "pages", pages(each=40)[0], shards=3)
    known = small_corpus(tmp_path / "seeds", seeds())
    given = {"settings": RecallSettings(vocabulary=600), "patterns": tmp_path / "reviewed.csv"}
    recall(source, known, tmp_path / "whole", **given)
    kill(CHILD, [tmp_path])
    assert bytes_of(tmp_path / "killed") == bytes_of(tmp_path / "whole")
