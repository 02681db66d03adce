"""Post-training quantization: a model with float values becomes a model in QDQ form, then a network of integers.

    quantize.py ........ entry: any model in, `Quantized` (network and its history) out; called by `flow` and a build
      post_training.py . a float model in, a QDQ model out: the whole chain for models without integers
        placement.py ... which values get integers
        biases.py, cross_layer_equalization.py ... rewriting before the integers are chosen
        ranges/ ........ range of every value: from samples (min-max, mean, MSE) or assumed
        mixed_precision/ search for bit widths that reach a goal
        sequential_ptq.py  grids, weights (GPTQ rounding) and bias corrections, node after node
        insert_qdq.py .. writes the choices into the model: QuantizeLinear and DequantizeLinear
      complete.py ...... a model with integers in, a network out; values that lack integers get some

The user's choices are a `Scheme` (scheme.py, goal.py, scheme_from_options.py). What was chosen is an `IntegerDecisions`
(decisions.py).
"""
