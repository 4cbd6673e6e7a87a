"""``dph view``: the report's page served from run directories, whatever their size, as they grow.

Read-only. Needs the extra ``dph-rl[report]`` (Starlette, uvicorn and what a report needs).
"""
