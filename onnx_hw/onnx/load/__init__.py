"""Reading of a whole file: parse, check, inline, build."""
