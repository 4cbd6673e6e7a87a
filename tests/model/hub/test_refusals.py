import errno

import pytest
from huggingface_hub import HfApi

from dph.errors import DataError, ModelError
from dph.model.hub_cache import said_plainly


def test_a_full_disk_stays_what_it_is():
    with pytest.raises(OSError, match="full") as refusal, said_plainly("a model", ModelError):
        raise OSError(errno.ENOSPC, "full")
    assert refusal.value.errno == errno.ENOSPC


def test_a_server_in_trouble_is_told_with_its_answer(hub):
    hub.server.RequestHandlerClass.tell_about = lambda self, *_: self.refuse(418, "Teapot")
    with (
        pytest.raises(DataError, match=r"a thing: http://\S+ answered 418"),
        said_plainly("a thing", DataError),
    ):
        HfApi(endpoint=hub.url).repo_info("org/any")
