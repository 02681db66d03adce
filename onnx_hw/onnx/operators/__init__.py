"""The meaning of ONNX operators in numpy: one small function per operator, whose signature is the schema.

This file is the table of contents. ``lookup(domain, op_type, version)`` finds an operator, ``operators()`` lists all.
"""

from onnx_hw.onnx.operators import (
    activation,  # Relu, Clip, Sigmoid, Gelu ...
    arithmetic,  # Add, Sub, Mul, Div, Pow, Max ...
    attention,  # Attention, RotaryEmbedding ...
    cast,  # Cast, CastLike, BitCast
    constant,  # Constant, ConstantOfShape, Range ...
    control_flow,  # If, Loop, Scan
    convolution,  # Conv
    detection,  # NonMaxSuppression
    indexing,  # Gather, Scatter, Slice, TopK ...
    integer_arithmetic,  # QLinearConv, MatMulInteger ...
    joining,  # Concat, Split, Tile, Pad ...
    logic,  # And, Equal, Where, BitShift ...
    loss,  # NegativeLogLikelihoodLoss ...
    matmul,  # MatMul, Gemm, Einsum, Det
    microsoft_blocked,  # com.microsoft: MatMulNBits
    microsoft_fused,  # com.microsoft: FusedConv, BiasGelu ...
    microsoft_products,  # com.microsoft: QGemm ...
    microsoft_quantized,  # com.microsoft: QLinearAdd ...
    normalization,  # BatchNormalization, LayerNormalization ...
    pooling,  # MaxPool, AveragePool, GlobalAveragePool ...
    qonnx,  # Quant, BipolarQuant, Trunc, MultiThreshold ...
    quantization,  # QuantizeLinear, DequantizeLinear
    random_numbers,  # RandomNormal, Bernoulli, Dropout ...
    recurrent,  # RNN, GRU, LSTM
    reduction,  # ReduceSum ..., ArgMax, CumSum
    resize,  # Resize, Upsample
    sampling,  # GridSample, RoiAlign, DeformConv ...
    sequence,  # SequenceAt ..., Optional ...
    shape,  # Reshape, Transpose, Flatten, Squeeze ...
    signal,  # DFT, STFT, HannWindow ...
    softmax,  # Softmax, LogSoftmax, Hardmax
    text,  # StringConcat ..., TfIdfVectorizer
    transposed_convolution,  # ConvTranspose, Col2Im, MaxUnpool
    unary,  # Abs, Exp, Sqrt, Sin, Erf ...
)
from onnx_hw.onnx.operators.registry import Call, OnnxOperator, facts_of, lookup, operator_of, operators

__all__ = [
    "Call",
    "OnnxOperator",
    "activation",
    "arithmetic",
    "attention",
    "cast",
    "constant",
    "control_flow",
    "convolution",
    "detection",
    "facts_of",
    "indexing",
    "integer_arithmetic",
    "joining",
    "logic",
    "lookup",
    "loss",
    "matmul",
    "microsoft_blocked",
    "microsoft_fused",
    "microsoft_products",
    "microsoft_quantized",
    "normalization",
    "operator_of",
    "operators",
    "pooling",
    "qonnx",
    "quantization",
    "random_numbers",
    "recurrent",
    "reduction",
    "resize",
    "sampling",
    "sequence",
    "shape",
    "signal",
    "softmax",
    "text",
    "transposed_convolution",
    "unary",
]
