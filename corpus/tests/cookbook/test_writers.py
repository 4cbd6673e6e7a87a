import pytest

from dph.errors import SettingsError
from dph_corpus.cookbook.writers import open_generator
from dph_corpus.settings import SynthSettings

SERVER = {"kind": "functions", "model": "m", "server": "http://127.0.0.1:1", "key_env": "THE_KEY"}


def test_a_function_or_a_server_writes_as_it_is_named(monkeypatch):
    monkeypatch.setenv("THE_KEY", "secret")
    function = open_generator(
        SynthSettings(kind="functions", generator="corpus.tests.synth.small_generators:averages")
    )
    assert function.identity == {"function": "corpus.tests.synth.small_generators:averages"}
    server = open_generator(SynthSettings(**SERVER, max_tokens=9))
    assert server.identity == {"server": "m", "max_tokens": 9, "temperature": 1.0}


def test_a_key_that_is_not_set_is_told(monkeypatch):
    monkeypatch.delenv("THE_KEY", raising=False)
    with pytest.raises(SettingsError, match="set THE_KEY to"):
        open_generator(SynthSettings(**SERVER))
