"""Which code made a result."""

import subprocess

from dph._base.provenance import CHANGED, UNKNOWN, code_commit, commit_of, versions


def git(directory, *words):
    done = subprocess.run(
        ["git", "-C", directory, "-c", "user.name=a", "-c", "user.email=a@b", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_checkout_is_at_its_commit_and_says_when_it_was_changed(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "module.py").write_text("x = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(package) == commit
    (tmp_path / "beside.txt").write_text("not of the package")
    assert commit_of(package) == commit
    (package / "module.py").write_text("x = 2\n")
    assert commit_of(package) == commit + CHANGED


def test_outside_a_checkout_it_is_not_known(tmp_path):
    assert commit_of(tmp_path) == UNKNOWN
    hexadecimal = code_commit().removesuffix(CHANGED)
    assert hexadecimal == UNKNOWN or len(hexadecimal) == 40


def test_versions_name_what_decides_numbers():
    said = versions("AVX2")
    for name in ("python 3", "torch 2", "transformers ", "tokenizers ", "numpy ", "dph-rl "):
        assert name in said
    assert said.endswith("AVX2")
