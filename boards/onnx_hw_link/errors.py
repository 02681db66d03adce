"""Errors between a host and a chip; each message says what to do."""

from __future__ import annotations

__all__ = ["AnotherDesign", "Garbled", "LinkError", "NoAnswer", "NotReady", "PortFailed", "Stalled"]


class LinkError(Exception):
    """The chip cannot be reached, or no longer. ``code`` is a stable name of the error."""

    code = "link"


class PortFailed(LinkError):
    """The port is not there, belongs to somebody else, or went away."""

    code = "link-port"


class NoAnswer(LinkError):
    """Nothing at all came from the port."""

    code = "link-no-answer"


class Garbled(LinkError):
    """Bytes came that are no packet: the speed is wrong, or something else is connected."""

    code = "link-garbled"


class AnotherDesign(LinkError):
    """The chip holds another circuit, or speaks another version of the protocol."""

    code = "link-other-design"


class NotReady(LinkError):
    """The chip answered, and takes no frames: its weights are not there, or not those of its design."""

    code = "link-not-ready"


class Stalled(LinkError):
    """The chip answered, and then made no more progress."""

    code = "link-stalled"
