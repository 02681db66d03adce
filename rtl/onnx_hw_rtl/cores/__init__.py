"""Cores: one file per hardware operator, and the parts that cores share."""
