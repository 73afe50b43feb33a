"""Tools: functions, MCP servers and skills that a model may call."""
