"""Protobuf messages as values, by the specification."""
