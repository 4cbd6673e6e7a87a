import jaxtyping
import pytest


@pytest.fixture
def no_type_checks():
    """Users run without the checks of types that tests run with."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
