from hub_fixtures import *  # noqa: F403
