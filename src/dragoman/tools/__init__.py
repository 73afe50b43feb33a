"""Tools that a model can call: Python functions, MCP servers and skills.

Import `tool`, `Toolbox`, `Context` and `Skill` from `dragoman`; the included skills are in `dragoman.tools.skills`.
"""
