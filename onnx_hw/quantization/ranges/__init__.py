"""Ranges of values: min-max and mean on samples, MSE ranges that cut outliers, and assumed ranges without data."""
