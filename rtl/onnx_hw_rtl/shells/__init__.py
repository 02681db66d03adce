"""Shells around a network: modules that connect its streams to the outside."""
