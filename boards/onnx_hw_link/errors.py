"""What can go wrong between a host and a chip, each in a sentence that says what to do."""

from __future__ import annotations

__all__ = ["AnotherDesign", "Garbled", "LinkError", "NoAnswer", "PortFailed", "Stalled"]


class LinkError(Exception):
    """The chip cannot be spoken to, or no longer. ``code`` is a stable word for it."""

    code = "link"


class PortFailed(LinkError):
    """The port is not there, belongs to somebody else, or went away."""

    code = "link-port"


class NoAnswer(LinkError):
    """Nothing at all came from the port."""

    code = "link-no-answer"


class Garbled(LinkError):
    """Something came that is no packet: the speed is wrong, or something else is connected."""

    code = "link-garbled"


class AnotherDesign(LinkError):
    """The chip holds another circuit, or speaks another version of the protocol."""

    code = "link-other-design"


class Stalled(LinkError):
    """The chip answered, and then went forward no more."""

    code = "link-stalled"
