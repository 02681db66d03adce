"""Settings of the whole test suite."""

from hypothesis import settings

# Machines differ and are shared: how long one example takes says nothing about the code.
settings.register_profile("house", deadline=None)
settings.load_profile("house")
