import os
import shutil
import subprocess

import pytest

from dph.errors import DataError
from dph_corpus.ingest.archives import (
    is_repository,
    newest_commit,
    repository_facts,
    repository_files,
)
from dph_corpus.ingest.reading import LARGEST, RawFile, Skip, document_of
from dph_corpus.ingest.run import ingest
from dph_corpus.ingest.sources import plan
from dph_corpus.tables import read_table

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

WHEN = 1_600_000_000


def git(directory, *words):
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    who |= {"GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}
    when = {"GIT_AUTHOR_DATE": f"{WHEN} +0000", "GIT_COMMITTER_DATE": f"{WHEN} +0000"}
    done = subprocess.run(
        ["git", "-C", directory, *words],
        env=os.environ | who | when,
        check=True,
        capture_output=True,
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    home = tmp_path / "repo"
    home.mkdir()
    git(home, "init", "-q")
    (home / "src").mkdir()
    (home / "src" / "a.py").write_text("x = 1\n")
    (home / "caf\udce9.txt").write_text("name\n")
    (home / "big.txt").write_bytes(b"x" * (LARGEST + 1))
    (home / "large.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    (home / "link").symlink_to("/etc/passwd")
    git(home, "add", "-A")
    git(home, "commit", "-qm", "one")
    (home / "untracked.py").write_text("no")
    (home / "src" / "a.py").write_text("changed, not committed")
    return home


def test_the_committed_files_are_read_and_links_and_pointers_counted(repository):
    commit, when = newest_commit(repository)
    found = list(repository_files(repository, commit))
    files = {file.path: file.data for file in found if isinstance(file, RawFile)}
    skipped = {(skip.reason, skip.path) for skip in found if not isinstance(skip, RawFile)}
    pointer = document_of(RawFile("large.bin", files.pop("large.bin")), {}, "repo")
    assert files == {"src/a.py": b"x = 1\n", "caf\\udce9.txt": b"name\n"}
    assert skipped == {("oversized", "big.txt"), ("link", "link")}
    assert pointer == Skip("lfs_pointer", "large.bin")
    assert when == WHEN


def test_a_bare_clone_holds_the_same_files(repository, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", repository, tmp_path / "bare.git")
    assert is_repository(tmp_path / "bare.git")
    assert not is_repository(tmp_path)
    commit, _ = newest_commit(tmp_path / "bare.git")
    both = [list(repository_files(place, commit)) for place in (repository, tmp_path / "bare.git")]
    assert both[0] == both[1]


def test_where_it_came_from_is_told_without_names_and_passwords(repository):
    for url, shown, name in (
        (
            "https://user:secret@host.org/owner/name.git",
            "https://host.org/owner/name.git",
            "owner/name",
        ),
        ("git@host.org:owner/name.git", "host.org:owner/name.git", "owner/name"),
    ):
        git(repository, "config", "remote.origin.url", url)
        facts = repository_facts(repository)
        assert facts == {"url": shown, "repo": name, "commit_time": WHEN}


def test_nothing_that_its_settings_name_is_run(repository, tmp_path):
    trap, sprung = tmp_path / "trap.sh", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand", "gpg.program"):
        git(repository, "config", key, trap)
    git(repository, "config", "log.showSignature", "true")
    commit, _ = newest_commit(repository)
    assert list(repository_files(repository, commit))
    repository_facts(repository)
    assert not sprung.exists()


def test_a_repository_without_commits_is_bad_input(tmp_path):
    git(tmp_path, "init", "-q")
    with pytest.raises(DataError, match="cannot read the git repository"):
        newest_commit(tmp_path)


@pytest.mark.usefixtures("repository")
def test_a_repository_that_cannot_be_read_is_counted_and_the_others_are_read(tmp_path):
    for name in ("empty", "dead"):
        (tmp_path / name).mkdir()
    git(tmp_path / "empty", "init", "-q")
    (tmp_path / "dead" / ".git").write_text("gitdir: /nowhere/.git/worktrees/dead\n")
    places = [str(tmp_path / name) for name in ("empty", "dead", "repo")]
    corpus = ingest(plan(places), tmp_path / "out")
    assert {document.path for document in corpus.documents()} == {"src/a.py", "caf\\udce9.txt"}
    assert corpus.manifest.flow.skipped["repository_damaged"] == 2
    notes = [row["note"] for row in read_table(tmp_path / "out" / "skipped.parquet")]
    assert "fatal: not a git repository: /nowhere/.git/worktrees/dead" in notes


def test_a_missing_object_is_counted(repository):
    commit, _ = newest_commit(repository)
    name = git(repository, "rev-parse", f"{commit}:src/a.py").decode().strip()
    (repository / ".git" / "objects" / name[:2] / name[2:]).unlink()
    skipped = [f for f in repository_files(repository, commit) if not isinstance(f, RawFile)]
    assert ("unreadable", "src/a.py") in [(skip.reason, skip.path) for skip in skipped]
