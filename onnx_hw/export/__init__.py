"""Export of the circuit into other designs: portable Verilog, a README, and a bench that does not need onnx-hw.

``export_folders.write`` does all of it for a build. The parts can be used alone:

* ``verilog.of_rtlil(rtlil, module, ports, folder)``: portable Verilog of any circuit in RTLIL (module ``top``), by
  yosys; ``verilog.portable(text, module, ports)``: the same for text that yosys has written already, which a proof
  keeps (``Proof.verilog``). Modules get plain names; only the ports of ``top`` that are named stay ports.
* ``verilog.module_name(name)``: a Verilog identifier for a model.
* ``readme.instantiation(module, streams)``, ``readme.page(design, module)``: a template and the README on the streams.
* ``test_vectors.streams(design)``: every stream of a design as the bench knows it; ``test_vectors.vectors``: its golden
  beats.

``bench/`` holds the files of every ``cocotb/`` folder; they import neither the compiler nor each other.
"""
