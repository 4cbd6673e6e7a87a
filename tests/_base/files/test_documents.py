import hashlib

import pytest

from dph._base.files import read_json, sha256, write_json
from dph.errors import DataError


def test_json_survives_and_nan_is_refused(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"é": [1, None, 0.1]})
    assert read_json(path) == {"é": [1, None, 0.1]}
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, float("nan"))
    assert read_json(path) == {"é": [1, None, 0.1]}


def test_json_that_is_missing_or_broken_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*a\.json"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match=r"a\.json is not valid JSON"):
        read_json(tmp_path / "a.json")


def test_the_hash_is_sha256_of_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()
