from letter_task import *  # noqa: F403
