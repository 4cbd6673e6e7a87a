from forked_programs import fork_program  # noqa: F401
