"""Answers of ``check`` for the convolutional networks of torchvision and timm, as torch's exporters write them.

    python benchmarks/torch_networks.py [NAME ...] [--size 64] [--exporter old|new|both] [--seconds 60] [--memory 4]
    python benchmarks/torch_networks.py --all [--seed 0] [--part 1/1]

Needs torch, torchvision and timm. The weights are random. Each network is checked in a process of its own, with limits
of processor time and of memory; a row has the answer, the seconds, and the peak of memory. ``--all`` takes every
convolutional network of the installed torchvision and timm in random order, one in four by the new exporter; a part is
every n-th of them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import random
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

TORCHVISION = (
    "efficientnet_b0 efficientnet_v2_s googlenet mnasnet0_5 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small"
    " regnet_x_400mf regnet_y_400mf resnet18 resnet50 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_0 squeezenet1_1"
)
TIMM = (
    "cs3darknet_s cspdarknet53 cspresnet50 darknet53 dla46_c eca_nfnet_l0 efficientnet_lite0 ese_vovnet19b_slim"
    " fasternet_t0 fbnetc_100 gernet_s ghostnet_050 hardcorenas_a hgnetv2_b0 hrnet_w18_small lcnet_050 mixnet_s"
    " mobilenetv3_small_050 mobilenetv4_conv_small mobileone_s0 nfnet_l0 regnetx_002 repghostnet_050 repvgg_a0"
    " repvit_m1 res2net50_26w_4s resnet10t resnetv2_50 rexnet_100 selecsls42b semnasnet_075 seresnet18 skresnet18"
    " spnasnet_100 starnet_s1 tinynet_e tresnet_m xception41"
)

TRANSFORMERS = (
    "beit cait coat convit crossvit csatv2 davit deepseek_vit deit eva gcvit gemma4_vit hiera hieradet_sam2 levit"
    " maxvit maxxvit mlp_mixer mvitv2 naflexvit nest nextvit pit pvt_v2 qwen3_vit sequencer swin_transformer"
    " swin_transformer_v2 swin_transformer_v2_cr tiny_vit tnt twins visformer vision_transformer"
    " vision_transformer_hybrid vision_transformer_relpos vision_transformer_sam vitamin volo xcit"
)
"""Modules of both libraries whose networks are not made of convolutions."""

ANSWERS = {0: "can be built", 1: "refused", 2: "too large"}
"""Answer of ``check`` by its exit code."""

OPERATORS = (
    "nms qnms roi_align _roi_align_backward ps_roi_align _ps_roi_align_backward roi_pool _roi_pool_backward ps_roi_pool"
    " _ps_roi_pool_backward qroi_align deform_conv2d _deform_conv2d_backward"
)
"""Compiled operators of torchvision, which are missing beside another build of torch; no network here needs them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="torchvision/NAME or timm/NAME; all if none is given")
    parser.add_argument("--size", type=int, default=64, help="height and width of the pictures")
    parser.add_argument("--exporter", choices=("old", "new", "both"), default="both")
    parser.add_argument("--seconds", type=int, default=60, help="limit of processor time")
    parser.add_argument("--memory", type=float, default=4.0, help="limit of memory, weights in files aside, in GB")
    parser.add_argument("--all", action="store_true", help="every convolutional network of both libraries")
    parser.add_argument("--seed", type=int, default=0, help="order of --all, and which exporter each network has")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the K-th of N parts of --all")
    options = parser.parse_args()
    context = get_context("forkserver")  # this process stays small: see `checked`
    context.set_forkserver_preload(["torch", "torchvision", "timm"])
    names = options.names or [f"torchvision/{n}" for n in TORCHVISION.split()] + [f"timm/{n}" for n in TIMM.split()]
    exporters = ("old", "new") if options.exporter == "both" else (options.exporter,)
    networks = [(name, exporter) for name in names for exporter in exporters]
    if options.all:
        with ProcessPoolExecutor(1, context) as process:
            names = process.submit(convolutional).result()
        part, parts = map(int, options.part.split("/"))
        draw = random.Random(options.seed)
        draw.shuffle(names)
        networks = [(name, draw.choice(("old", "old", "old", "new"))) for name in names][part - 1 :: parts]
    for name, exporter in networks:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.onnx"
            with ProcessPoolExecutor(1, context) as process:
                if error := process.submit(exported, name, path, options.size, exporter == "new").result():
                    print(f"{name:36} {exporter}  not exported: {error}", flush=True)
                    continue
            print(f"{name:36} {exporter}  {checked(path, options.seconds, options.memory)}", flush=True)


def convolutional() -> list[str]:
    """Return the names of all networks of torchvision and timm that classify pictures with convolutions."""
    timm = importlib.import_module("timm")
    torchvision = importlib.import_module("torchvision.models")
    registry = importlib.import_module("timm.models._registry")
    transformers = TRANSFORMERS.split()
    names = [f"timm/{name}" for name in timm.list_models() if registry._model_to_module[name] not in transformers]
    for name in torchvision.list_models(module=torchvision):
        module = torchvision.get_model_builder(name).__module__.rpartition(".")[2]
        if module not in transformers:
            names.append(f"torchvision/{name}")
    return sorted(names)


def exported(name: str, path: Path, size: int, new: bool) -> str:
    """Export as ``export``; return why that failed, or an empty text. The errors of torch do not leave a process."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            export(name, path, size, new)
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError) as error:
        return (str(error).splitlines() or [type(error).__name__])[0][:80]
    return ""


def export(name: str, path: Path, size: int, new: bool) -> None:
    """Write a network with random weights to a file."""
    import torch

    torch.manual_seed(0)
    network = _network(name).eval()
    sample = torch.zeros(1, 3, size, size)
    with torch.no_grad():
        if new:
            torch.onnx.export(network, (sample,), str(path), dynamo=True, external_data=False, verbose=False)
        else:
            torch.onnx.export(network, (sample,), str(path), dynamo=False, opset_version=17)


def _network(name: str) -> Any:
    import torch

    library, _, network = name.partition("/")
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        stand_ins = torch.library.Library("torchvision", "FRAGMENT")
        for operator in OPERATORS.split():
            if not hasattr(torch.ops.torchvision, operator):
                stand_ins.define(f"{operator}(Tensor x) -> Tensor")
        _KEPT.append(stand_ins)
        for module in [module for module in sys.modules if module.startswith("torchvision")]:
            del sys.modules[module]
    if library == "timm":
        return importlib.import_module("timm").create_model(network, pretrained=False)
    return importlib.import_module("torchvision.models").get_model(network, weights=None)


_KEPT: list[Any] = []
"""Stand-ins for operators: they are known as long as their library is."""


def checked(path: Path, seconds: int, gigabytes: float) -> str:
    """Return what ``check`` answers, its processor time and its peak of memory.

    The peak of a process is never less than what its parent held when it started it.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (int(gigabytes * 1e9),) * 2)  # weights in files are mapped

    command = [sys.executable, "-m", "onnx_hw", "check", str(path), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limit)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    answer = ANSWERS.get(code, f"ended with {code}")
    return f"{answer:14} {usage.ru_utime + usage.ru_stime:6.1f} s {usage.ru_maxrss / 1024:7,.0f} MiB"


if __name__ == "__main__":
    main()
