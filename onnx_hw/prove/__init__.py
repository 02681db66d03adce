"""The link from the model to golden: whether the network computes what the ONNX file says."""
