from finished_runs import *  # noqa: F403
from hub_fixtures import *  # noqa: F403
from letter_task import *  # noqa: F403
