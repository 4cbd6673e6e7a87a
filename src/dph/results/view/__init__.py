"""``dph view``: the report's page, served while its runs grow.

Read-only. Needs the extra ``dph-rl[view]`` (Starlette and uvicorn).
"""
