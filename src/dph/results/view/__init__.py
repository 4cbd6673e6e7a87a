"""``dph view``: the report's page, served while its runs grow.

Read-only. Needs the extra ``dph-rl[report]`` (Starlette, uvicorn and what a report needs).
"""
