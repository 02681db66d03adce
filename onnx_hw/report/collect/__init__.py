"""Sections of the report, made from the values of a build."""
