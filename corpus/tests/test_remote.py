"""A corpus in a store: the same bytes as on disk, by machines that share nothing but the store.

The store is a directory behind a ``file://`` URL. Where s3fs and moto are (``make test-store``) it
is also a bucket of a server for S3, which answers 503 for a while.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from dph._base.files import make_directory
from dph.errors import DataError, SettingsError
from dph_corpus import remote
from dph_corpus.dedup.run import dedup
from dph_corpus.ingest.run import ingest
from dph_corpus.ingest.sources import plan
from dph_corpus.mix import Mixture, mix
from dph_corpus.running import help_with
from dph_corpus.settings import PRESETS
from dph_corpus.shards import open_corpus
from dph_corpus.stage import StageSpec
from dph_corpus.stage_run import run_stage
from dph_corpus.token_shards import tokenize
from small_corpora import numbered, rows_file, small_corpus

HAS_S3 = all(importlib.util.find_spec(name) for name in ("s3fs", "moto", "flask"))
DRIVER = """
import sys
from dph_corpus.remote import placed
from dph_corpus.shards import open_corpus
from dph_corpus.stage import StageSpec
from dph_corpus.stage_run import run_stage
source, out = sys.argv[1:]
spec = StageSpec(name="shout", entry="small_corpora:Slow", settings={})
run_stage(spec, open_corpus(placed(source)), placed(out), workers=1)
"""
HELPER = """
import sys
from dph_corpus.remote import placed
from dph_corpus.mix import Mixture, mix
from dph_corpus.running import help_with
done = lambda amount, name: print(name, flush=True)
help_with([placed(sys.argv[1])], workers=1, idle=float(sys.argv[2]), on_progress=done)
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """A scratch directory of this test's own."""
    monkeypatch.setenv(remote.SCRATCH, str(tmp_path / "scratch"))
    with remote.own_scratch():
        yield


@pytest.fixture(
    params=[
        "file",
        pytest.param(
            "s3",
            marks=pytest.mark.skipif(
                not HAS_S3, reason="needs s3fs and moto: `make test-store` runs this"
            ),
        ),
    ]
)
def store(request, tmp_path, monkeypatch):
    """A store: the URL of a place in it, and a file that makes it answer 503 while it is there."""
    if request.param == "file":
        yield f"file://{tmp_path}/store", None
        return
    from object_store import bucket  # noqa: PLC0415

    busy = tmp_path / "busy"
    with bucket(busy, monkeypatch) as url:
        yield url, busy
        remote._opened("s3", "s3://x/x").clear_instance_cache()
        remote._opened.cache_clear()


def machine(tmp_path, name, code, *words):
    """A process with a scratch directory of its own."""
    environment = os.environ | {remote.SCRATCH: str(tmp_path / name)}
    environment["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], env=environment, stdout=subprocess.PIPE, text=True
    )


def upload(directory, url):
    """Send everything below ``directory`` to ``url``."""
    for path in directory.rglob("*"):
        if path.is_file():
            target = remote.placed(url) / path.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            remote.sent(Path(shutil.copy(path, target)))


def downloaded(url, target):
    """Everything below ``url``, as files of ``target``."""
    with remote.own_scratch():
        place = remote.placed(url)
        system, inside = remote._file_system(url.partition("://")[0], str(remote.url_of(place)))
        system.get(inside, str(target), recursive=True)
    return target


def stages(directory, source, workers):
    """Every way in which stages are cut into steps, without the packages of the extra."""
    raw = ingest(plan([f"input={source}"]), directory / "raw", shards=3, workers=workers)
    unique = dedup(raw, directory / "unique", nearness=PRESETS["exact"], shards=2, workers=workers)
    spec = StageSpec(name="shout", entry="small_corpora:Lengths", settings={"longest": 6})
    loud = run_stage(spec, unique, directory / "loud", workers=workers)
    mixture = Mixture(budget=120, shares={"a": 2.0, "b": 1.0})
    mix({"a": loud, "b": raw}, directory / "mixed", mixture=mixture, shards=2, workers=workers)
    place = make_directory(source.parent / "words")
    words = Tokenizer(models.WordLevel({"text": 0, "end": 1}, unk_token="text"))
    words.save(str(place / "tokenizer.json"))
    given = {"tokenizer": place, "form": "datatrove", "end": "end"}
    tokenize(raw, directory / "tokens", workers=workers, **given)


def result(directory):
    """What stages leave for their readers."""
    found = {path.relative_to(directory): path for path in directory.rglob("*") if path.is_file()}
    own = {".done", ".lock", ".parts", ".writer"}
    return {name: path.read_bytes() for name, path in found.items() if not own & {*name.parts}}


# Names.


@pytest.mark.parametrize(
    "url", ["s3x://bucket/a/b", "file:///tmp/a", "memory://a/b"], ids=["other", "file", "memory"]
)
def test_a_path_says_which_object_it_stands_for(url):
    if url.startswith("s3x"):
        with pytest.raises(SettingsError, match="s3x:// is not a file system that fsspec knows"):
            remote.placed(url)
        return
    path = remote.placed(url)
    assert remote.url_of(path / "x") == (url if "///" in url else url.replace("//", "///")) + "/x"


def test_a_path_of_this_machine_stays_as_it_is(tmp_path):
    assert remote.placed("a/b") == Path("a/b")
    assert remote.url_of(tmp_path) is None
    assert remote.fetched(tmp_path / "none") == tmp_path / "none"


def test_a_url_does_not_climb():
    with pytest.raises(SettingsError, match=r"must not contain '\.\.', got file:///a/\.\./b"):
        remote.placed("file:///a/../b")


def test_scratch_of_processes_that_are_gone_is_removed(tmp_path, monkeypatch):
    monkeypatch.setenv(remote.SCRATCH, str(tmp_path / "other"))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / "other" / f"dph-scratch-{gone.pid}-x"
    left.mkdir(parents=True)
    remote.placed("file:///a")
    assert not left.exists()


# A store that is busy, or that will never answer.


class Busy:
    """A file system that fails so many times."""

    protocol = ("busy",)

    def __init__(self, failures, error):
        self.failures, self.error = failures, error

    def _strip_protocol(self, url):
        return url

    def cat_file(self, _place):
        if self.failures:
            self.failures -= 1
            raise self.error
        return b"x"


@pytest.mark.parametrize(
    ("failures", "error", "patience", "message"),
    [
        (3, OSError("503 Slow Down"), 60, None),
        (3, PermissionError("Access Denied"), 60, "Access Denied"),
        (10**9, OSError("503 Slow Down"), 0.05, "OSError: 503 Slow Down; asked again for 0.05 s"),
    ],
    ids=["busy", "denied", "gone"],
)
def test_a_busy_store_is_asked_again(monkeypatch, failures, error, patience, message):
    busy = Busy(failures, error)
    monkeypatch.setattr(remote, "_opened", lambda _scheme, _example: busy)
    monkeypatch.setattr(remote, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(remote, "PATIENCE", patience)
    path = remote.placed("busy://a/b")
    if message is None:
        assert remote.content(path) == b"x"
    else:
        with pytest.raises(DataError, match=f"busy://a/b: {message}"):
            remote.content(path)


# Claims.


def test_a_claim_is_kept_by_who_goes_on_changing_it(tmp_path):
    path = tmp_path / "claim"
    with remote.Claims(0.05) as first, remote.Claims(0.05) as second:
        assert first.take(path)
        assert first.take(path)
        assert not second.wait_for(path)
        first.give_back(path)
        assert second.take(path)
    assert not path.exists()


def test_a_claim_of_a_machine_that_is_gone_is_taken(tmp_path):
    path = tmp_path / "claim"
    path.write_text("somebody 7")
    with remote.Claims(0.05) as claims:
        assert not claims.take(path)
        assert claims.wait_for(path)


# Stages.


def test_every_stage_writes_the_same_bytes_to_a_store(tmp_path, store):
    url, _ = store
    rows = [{"path": f"{n}.txt", "text": f"text {n % 30}"} for n in range(40)]
    source = rows_file(tmp_path / "rows.jsonl", rows)
    stages(tmp_path / "here", source, 1)
    stages(remote.placed(url), source, 1)
    there = result(downloaded(url, tmp_path / "there"))
    assert len(there) > 12
    assert there == result(tmp_path / "here")


def test_a_stage_in_a_store_is_not_run_again(tmp_path, store, monkeypatch):
    url, _ = store
    source = small_corpus(tmp_path / "source", numbered(4), shards=2)
    spec = StageSpec(name="shout", entry="small_corpora:Lengths", settings={"longest": 60})
    first = run_stage(spec, source, remote.placed(f"{url}/out"))
    monkeypatch.setattr("dph_corpus.running.open_pool", None)
    with remote.own_scratch():
        again = run_stage(spec, source, remote.placed(f"{url}/out"))
        assert [*again.documents()] != []
    assert again.manifest.json() == first.manifest.json()


def test_somebody_who_writes_there_is_not_disturbed(tmp_path, store):
    url, _ = store
    source = small_corpus(tmp_path / "source", numbered(2))
    spec = StageSpec(name="shout", entry="small_corpora:Lengths", settings={"longest": 60})
    out = remote.placed(f"{url}/out")
    with remote.Claims(0.05) as other:
        assert other.take(out / ".writer")
        refused = f"writing into {url}/out; help it with `dph-corpus work"
        with pytest.raises(DataError, match=refused):
            run_stage(spec, source, out)


def test_help_is_for_stores(tmp_path):
    with pytest.raises(DataError, match="is a directory of this machine"):
        help_with([tmp_path], workers=1, idle=0)


@pytest.mark.slow
def test_a_machine_that_is_killed_and_a_busy_store_change_no_byte(tmp_path, store):
    url, busy = store
    here = small_corpus(tmp_path / "source", numbered(24), shards=12)
    spec = StageSpec(name="shout", entry="small_corpora:Slow", settings={})
    run_stage(spec, here, tmp_path / "here", workers=2)
    upload(tmp_path / "source", f"{url}/source")
    out = f"{url}/out"
    lost = machine(tmp_path, "lost", HELPER, out, "60")
    stays = machine(tmp_path, "stays", HELPER, out, "20")
    driver = machine(tmp_path, "driver", DRIVER, f"{url}/source", out)
    assert lost.stdout.readline()  # it has done a shard, and is at the next
    lost.send_signal(signal.SIGKILL)
    if busy is not None:
        busy.touch()
        threading.Timer(8, busy.unlink).start()
    driver.communicate(timeout=300)
    assert driver.returncode == 0
    helped = stays.communicate(timeout=120)[0].split()
    lost.communicate()
    assert helped
    assert result(downloaded(out, tmp_path / "there")) == result(tmp_path / "here")


@pytest.mark.slow
def test_a_stage_whose_machine_is_killed_goes_on_elsewhere(tmp_path, store):
    url, _ = store
    here = small_corpus(tmp_path / "source", numbered(16), shards=8)
    run_stage(
        StageSpec(name="shout", entry="small_corpora:Slow", settings={}), here, tmp_path / "here"
    )
    upload(tmp_path / "source", f"{url}/source")
    first = machine(tmp_path, "first", DRIVER, f"{url}/source", f"{url}/out")
    notes = remote.placed(f"{url}/out") / ".done"
    until = time.monotonic() + 120
    while not {name for name in remote.names(notes) if name.endswith(".json")}:
        assert time.monotonic() < until
        time.sleep(0.2)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second = machine(tmp_path, "second", DRIVER, f"{url}/source", f"{url}/out")
    second.communicate(timeout=300)
    assert second.returncode == 0
    assert result(downloaded(f"{url}/out", tmp_path / "there")) == result(tmp_path / "here")
    assert open_corpus(remote.placed(f"{url}/out")).manifest.documents == 16


def test_what_was_fetched_is_not_sent_again(tmp_path, monkeypatch):
    url = f"file://{tmp_path}/store"
    small_corpus(tmp_path / "a", numbered(20), shards=4)
    upload(tmp_path / "a", f"{url}/a")
    source = open_corpus(remote.placed(f"{url}/a"))
    sent = []
    put = remote._put
    monkeypatch.setattr(remote, "_put", lambda *words: sent.append(words[2]) or put(*words))
    mixture = Mixture(budget=60, shares={"a": 1.0})
    mix({"a": source}, remote.placed(f"{url}/mixed"), mixture=mixture, shards=2)
    assert sent
    assert [place for place in sent if "/store/a/" in place] == []
