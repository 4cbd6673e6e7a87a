import signal
import subprocess
import sys
import time

import pytest

from corpus.recall.planted_pages import pages, seeds
from dph.corpus.recall.run import recall
from dph.corpus.settings import RecallSettings
from small_corpora import small_corpus

CHILD = """
import sys
from pathlib import Path
from dph.corpus.recall.run import recall
from dph.corpus.settings import RecallSettings
from dph.corpus.shards import open_corpus
if __name__ == "__main__":
    here = Path(sys.argv[1])
    recall(open_corpus(here / "pages"), open_corpus(here / "seeds"), here / "killed",
           settings=RecallSettings(vocabulary=600), patterns=here / "reviewed.csv")
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_bytes(tmp_path):
    (tmp_path / "reviewed.csv").write_text("pattern,accept\n%/questions/%,yes\n")
    (tmp_path / "child.py").write_text(CHILD)
    source = small_corpus(tmp_path / "pages", pages(each=40)[0], shards=3)
    known = small_corpus(tmp_path / "seeds", seeds())
    recall(
        source,
        known,
        tmp_path / "whole",
        settings=RecallSettings(vocabulary=600),
        patterns=tmp_path / "reviewed.csv",
    )
    seconds, killed = 0.7, 0
    while True:
        child = subprocess.Popen([sys.executable, tmp_path / "child.py", tmp_path])
        try:
            assert child.wait(timeout=seconds) == 0
            break
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            killed += 1
            seconds *= 1.25
            time.sleep(0.1)  # workers end with their parent
    assert killed
    names = {path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*.*")}
    for name in sorted(names):
        if (tmp_path / "whole" / name).is_file() and ".done" not in name.parts:
            whole, other = (tmp_path / run / name for run in ("whole", "killed"))
            assert whole.read_bytes() == other.read_bytes(), name
