import pytest
from huggingface_hub import constants

from hub_server import Hub


def use(monkeypatch, hub, home):
    """Point huggingface_hub, which reads its environment once, at a Hub and an empty cache."""
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.delenv("HF_TOKEN", raising=False)


@pytest.fixture
def hub(tmp_path_factory, monkeypatch):
    """An empty Hub on loopback; the cache is empty, too."""
    hub = Hub()
    use(monkeypatch, hub, tmp_path_factory.mktemp("hf"))
    yield hub
    hub.close()


@pytest.fixture
def unreachable(hub, monkeypatch):
    """From when it is called on, nobody answers; huggingface_hub need not wait to believe it."""

    def close():
        hub.close()
        monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)

    return close


@pytest.fixture
def offline(monkeypatch):
    """From when it is called on, as if HF_HUB_OFFLINE were set."""
    return lambda: monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
