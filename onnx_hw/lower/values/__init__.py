"""Kinds of ONNX values in the lowering, one class in one file.

Integers on a stream and the base classes are in ``network_builder.py``. Real numbers on a stream are linear in its
integers (``real.py``) or any other function of them (``function.py``). The other files are kinds of pending values:
real numbers that hardware makes when they are quantized, since rounding them only once costs least.
"""
