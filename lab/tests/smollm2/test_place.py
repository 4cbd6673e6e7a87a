import pytest

from dph.errors import DataError
from lab import smollm2
from lab.smollm2 import check_digests, require_pinned, smollm2_place


def test_the_variable_says_where_it_lies_and_nothing_else_is_looked_at(tmp_path, monkeypatch):
    here = tmp_path / ".smollm2" / "model"
    here.mkdir(parents=True)
    (here / "SHA256SUMS").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPH_SMOLLM2", raising=False)
    assert smollm2_place() == here
    monkeypatch.setenv("DPH_SMOLLM2", str(tmp_path / "elsewhere"))
    assert smollm2_place() is None


def test_without_digests_it_is_not_whole_and_so_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("DPH_SMOLLM2", str(tmp_path))
    (tmp_path / "model.safetensors").touch()
    assert smollm2_place() is None


def test_files_that_are_missing_or_changed_are_named(tmp_path, monkeypatch):
    # The SHA-256 of "abc", FIPS 180-4.
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    monkeypatch.setattr(smollm2, "WEIGHTS_SHA256", abc)
    weights = tmp_path / "model.safetensors"
    (tmp_path / "SHA256SUMS").write_text(f"{abc}  model.safetensors\n")
    with pytest.raises(DataError, match="is missing: remove"):
        check_digests(tmp_path)
    weights.write_text("abc")
    assert check_digests(tmp_path) == abc
    weights.write_text("abd")
    with pytest.raises(DataError, match=rf"model\.safetensors has the SHA-256 \w+, not {abc}"):
        check_digests(tmp_path)


def test_weights_of_another_wheel_are_refused_with_both_digests():
    with pytest.raises(DataError, match=f"SHA-256 other, those of .* {smollm2.WEIGHTS_SHA256}"):
        require_pinned("other")
