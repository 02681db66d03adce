"""Shells around a network."""
