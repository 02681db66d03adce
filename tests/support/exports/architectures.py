"""Small networks of the shapes that people give to networks, told to any converter layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from support.exports.export import Export, Map

ACTIVATIONS = (
    *["relu"] * 9,
    *["relu6"] * 4,
    *["leakyrelu"] * 2,
    *["hardswish"] * 2,
    *["silu"] * 2,
    *("hardtanh", "sigmoid", "tanh", "elu", "prelu", "gelu", "selu", "softplus", "mish", "hardsigmoid"),
)


def image(e: Export, least: int = 6, most: int = 16) -> Map:
    e.activations = e.pick((e.pick(*ACTIVATIONS),), (e.pick(*ACTIVATIONS), e.pick(*ACTIVATIONS)))
    e.open_size = e.yes(0.06)
    side = e.number(least, most)
    return e.prepared(e.input(e.pick(1, 3, 3, 4), (side, side if e.yes(0.7) else e.number(least, most))))


def kind(e: Export) -> str:
    """An activation of this network."""
    return str(e.pick(*e.activations))


def classes(e: Export, x: Map) -> None:
    """Means or all elements, one or two dense layers, and what classifiers end with."""
    e.open_size = False
    x = e.summary(x) if x.size and (e.yes(0.6) or prod(x.shape) > 400) else e.flat(x)
    if e.yes(0.3):
        x = e.dense(x, e.number(4, 12), kind(e))
    x = e.dense(x, e.number(2, 10))
    ending = e.pick("none", "none", "Softmax", "Softmax", "Sigmoid", "LogSoftmax" if e.yes(0.3) else "none")
    if ending == "Sigmoid":
        x = e.follow("Sigmoid", x)
    elif ending != "none":
        x = e.follow(ending, x, axis=e.pick(-1, 1))
    e.output(x)


def pooled(e: Export, x: Map) -> Map:
    """Half the size, if there is anything to halve."""
    return e.pool(x, e.pick("Max", "Max", "Average")) if min(x.size) > 2 else x


def plain(e: Export) -> None:
    """Convolutions and pools, one after the other."""
    x = image(e)
    channels = e.number(3, 8)
    for _ in range(e.number(1, 4)):
        x = e.conv(x, channels, e.pick(1, 3, 3, 5), stride=e.pick(1, 1, 2), activation=kind(e))
        if e.yes(0.2):
            x = e.padded(x)
        if e.yes():
            x = pooled(e, x)
        channels = min(16, channels + e.number(0, 4))
    classes(e, x)


def residual(e: Export) -> None:
    """Blocks around which there is a way, with a convolution where shapes change; plain or with a bottleneck."""
    x = image(e)
    x = e.conv(x, e.number(4, 8), 3, stride=e.pick(1, 2), activation=kind(e))
    if e.yes(0.2):
        x = e.padded(x)
    if e.yes(0.3):
        x = pooled(e, x)
    for _ in range(e.number(1, 3)):
        wide = x.channels if e.yes() else min(16, x.channels + e.number(1, 6))
        stride = 1 if wide == x.channels or min(x.size) < 3 else 2
        if e.yes(0.3):
            y = e.conv(x, max(2, wide // 2), 1, activation=kind(e))
            y = e.conv(y, y.channels, 3, stride=stride, activation=kind(e))
            y = e.conv(y, wide, 1)
        else:
            y = e.conv(x, wide, 3, stride=stride, activation=kind(e))
            y = e.conv(y, wide, 3)
        if e.yes(0.2):
            y = e.excited(y)
        way = x if wide == x.channels and stride == 1 else e.conv(x, wide, 1 if e.yes(0.8) else 3, stride=stride)
        x = e.act(e.add(y, way) if e.yes() else e.add(way, y), e.pick("none", kind(e), kind(e)))
    classes(e, x)


def mobile(e: Export) -> None:
    """Depthwise separable convolutions, or inverted residuals, some of them excited."""
    x = image(e)
    x = e.conv(x, e.number(3, 6), 3, stride=2, activation=kind(e))
    inverted = e.yes(0.6)
    for _ in range(e.number(1, 4)):
        stride = e.pick(1, 1, 2) if min(x.size) > 2 else 1
        outputs = x.channels if e.yes() else min(12, x.channels + e.number(1, 4))
        y = e.conv(x, min(16, 2 * x.channels), 1, activation=kind(e)) if inverted else x
        y = e.conv(y, y.channels, e.pick(3, 3, 5), stride=stride, group=y.channels, activation=kind(e))
        if e.yes(0.3):
            y = e.excited(y, e.pick("sigmoid", "sigmoid", "hardsigmoid", "tanh"))
        y = e.conv(y, outputs, 1, activation="none" if inverted else kind(e))
        x = e.add(x, y) if inverted and stride == 1 and outputs == x.channels else y
    if e.yes(0.4):
        x = e.conv(x, min(16, 2 * x.channels), 1, activation=kind(e))
    classes(e, x)


def joined(e: Export) -> None:
    """Branches that are joined: fire modules, inceptions, dense blocks."""
    x = image(e, most=12)
    x = e.conv(x, e.number(3, 6), 3, activation=kind(e))
    for _ in range(e.number(1, 3)):
        way = e.pick("fire", "inception", "dense")
        if way == "fire":
            y = e.conv(x, e.number(2, 4), 1, activation=kind(e))
            parts = [e.conv(y, e.number(2, 6), k, activation=kind(e)) for k in (1, 3)]
        elif way == "inception":
            parts = [e.conv(x, e.number(1, 4), k, activation=kind(e)) for k in (1, 3, 5)[: e.number(2, 3)]]
        else:
            parts = [x, e.conv(x, e.number(1, 4), 3, activation=kind(e))]
        x = e.concat(parts)
        if x.channels > 12:
            x = e.conv(x, 6, 1, activation=kind(e))
        if e.yes(0.4):
            x = pooled(e, x)
    classes(e, x)


def shuffled(e: Export) -> None:
    """Halves of the channels that go their own way, and then are mixed; or grouped convolutions."""
    x = image(e, most=12)
    x = e.conv(x, e.pick(4, 8), 3, stride=e.pick(1, 2), activation=kind(e))
    for _ in range(e.number(1, 3)):
        if e.yes(0.7):
            first, second = e.split(x)
            second = e.conv(second, second.channels, 1, activation=kind(e))
            second = e.conv(second, second.channels, 3, group=second.channels)
            second = e.conv(second, second.channels, 1, activation=kind(e))
            x = e.shuffled(e.concat([first, second]))
        else:
            x = e.conv(x, x.channels, 1, group=2, activation=kind(e))
            x = e.conv(e.shuffled(x), x.channels, 3, group=e.pick(2, x.channels), activation=kind(e))
    classes(e, x)


def image_to_image(e: Export) -> None:
    """Down and up again, with joins across: U-Net, an autoencoder, or a segmentation."""
    x = image(e, 8, 12)
    if any(n % 4 for n in x.size):
        x = e.conv(x, x.channels, 3, activation=kind(e))
        ups = 0
    else:
        ups = e.number(1, 2)
    skips = []
    x = e.conv(x, e.number(3, 5), 3, activation=kind(e))
    join = e.pick("concat", "add", "none")
    for _ in range(ups):
        skips.append(x)
        x = e.conv(x, min(10, x.channels + 2), 3, stride=2, activation=kind(e))
    if e.yes(0.4):
        x = e.conv(x, x.channels, 3, dilation=2, activation=kind(e))
    for skip in reversed(skips):
        if e.yes():
            x = e.act(e.transposed_conv(x, skip.channels))
        else:
            x = e.conv(e.upsampled(x), skip.channels, 3, activation=kind(e))
        if join == "concat":
            x = e.conv(e.concat([skip, x]), skip.channels, 3, activation=kind(e))
        elif join == "add":
            x = e.add(x, skip)
    x = e.conv(x, e.number(1, 3), e.pick(1, 3))
    e.output(e.act(x, e.pick("none", "sigmoid", "tanh")))


def larger(e: Export) -> None:
    """Super resolution: convolutions, then more pixels."""
    x = image(e, 5, 10)
    y = e.conv(x, e.number(3, 8), e.pick(3, 5), activation=kind(e))
    for _ in range(e.number(0, 2)):
        y = e.add(y, e.conv(y, y.channels, 3, activation=kind(e))) if e.yes() else e.conv(y, 6, 3, activation=kind(e))
    if e.yes():
        y = e.conv(y, 4 * e.pick(1, 3), 3)
        if not y.last:
            size = [2 * n for n in y.size]
            mode = e.pick("CRD", "DCR")
            y = y.like(e.raw("DepthToSpace", [y.name], blocksize=2, mode=mode), y.channels // 4, size)
    else:
        y = e.conv(e.upsampled(y), 3, 3)
    e.output(y)


def detector(e: Export) -> None:
    """Two maps of boxes, the finer one with what the coarser one knows."""
    x = image(e, 8, 12)
    fine = e.conv(e.conv(x, 4, 3, stride=1, activation=kind(e)), 6, 3, stride=2, activation=kind(e))
    coarse = e.conv(fine, 8, 3, stride=2, activation=kind(e))
    if all(n % 2 == 0 for n in fine.size):
        up = e.upsampled(e.conv(coarse, 4, 1, activation=kind(e)))
        fine = e.conv(e.concat([up, fine]), 6, 3, activation=kind(e))
    for y in (fine, coarse):
        y = e.conv(y, e.number(3, 6), 1)
        e.output(e.act(y, e.pick("none", "sigmoid")))


def activated_first(e: Export) -> None:
    """Residual blocks that begin with normalization and activation; layers that are scaled."""
    x = e.conv(image(e, most=12), e.number(3, 6), 3)
    for _ in range(e.number(1, 3)):
        y = x if x.last else e.normalized(x)
        y = e.conv(e.act(y), x.channels, 3, activation=kind(e))
        y = e.conv(y, x.channels, e.pick(1, 3))
        if e.yes(0.4):
            y = e.follow("Mul", y, e.per_channel(y, 0.2, 1.0))
        x = e.add(x, y)
    classes(e, e.act(x if x.last else e.normalized(x)))


def gated(e: Export) -> None:
    """Gates: of half the channels for the other half, of places, of channels."""
    x = e.conv(image(e, most=10), 2 * e.number(2, 4), 3, stride=e.pick(1, 2), activation=kind(e))
    for _ in range(e.number(1, 3)):
        way = e.pick("halves", "halves", "places", "places", "channels", "channels", "difference")
        if way == "halves":
            first, second = e.split(e.conv(x, x.channels, 1))
            x = e.conv(e.mul(first, e.act(second, "sigmoid")), x.channels, 1, activation=kind(e))
        elif way == "places":
            x = e.attended(x)
        elif way == "channels":
            x = e.excited(x)
        else:
            x = e.of_two("Sub", x, e.conv(x, x.channels, 3, activation=kind(e)))
    classes(e, x)


def vector(e: Export) -> None:
    """Dense layers only: a classifier, or an autoencoder."""
    e.activations = (e.pick(*ACTIVATIONS[:-3]),)
    if any(kind in ("prelu",) for kind in e.activations):
        e.activations = ("relu",)
    width = e.number(4, 40)
    x = e.input(width, ())
    for _ in range(e.number(1, 4)):
        x = e.dense(x, e.number(3, 24), kind(e))
    if e.yes():
        classes(e, x)
    else:
        e.output(e.act(e.dense(x, width), e.pick("none", "sigmoid")))


def sequence(e: Export) -> None:
    """Convolutions along one axis: words, vibrations."""
    e.activations = (e.pick(*ACTIVATIONS),)
    x = e.input(e.number(1, 6), (e.number(10, 24),))
    x = e.conv(x, e.number(3, 8), e.pick(3, 5), activation=kind(e))
    for _ in range(e.number(1, 3)):
        if e.yes(0.3):
            y = e.conv(x, x.channels, 3, dilation=e.pick(1, 2, 4), activation=kind(e))
            x = e.add(x, y)
        else:
            x = e.conv(x, min(12, x.channels + 2), 3, stride=e.pick(1, 1, 2), activation=kind(e))
        if e.yes(0.4) and x.size[0] > 4:
            x = e.pool(x, e.pick("Max", "Average"))
    classes(e, x)


ARCHITECTURES: tuple[Callable[[Export], None], ...] = (
    plain,
    plain,
    residual,
    residual,
    mobile,
    mobile,
    joined,
    shuffled,
    image_to_image,
    larger,
    detector,
    activated_first,
    gated,
    vector,
    sequence,
)
