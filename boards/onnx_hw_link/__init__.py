"""A network on a board, from the host: packets over a serial line, and a driver that cannot hang.

from onnx_hw_link.device import Device
"""
