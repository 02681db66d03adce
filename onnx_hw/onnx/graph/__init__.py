"""Values of an ONNX model: graph, nodes, element types, signatures."""
