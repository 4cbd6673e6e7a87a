from worker_fixtures import user_module  # noqa: F401
