"""Streaming circuits for integer neural networks, usable without ONNX: every core is an Amaranth component with
``lib.stream`` ports, configured by plain integers and arrays.
"""
