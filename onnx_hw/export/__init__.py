"""The circuit for other people's designs: portable Verilog, a page on it, and a bench that needs nothing of ours.

``folders.write`` does all of it for a build. What it is made of can be had alone:

* ``verilog.of_rtlil(rtlil, module, ports, folder)``: portable Verilog of any circuit in RTLIL (module ``top``), by
  yosys; ``verilog.portable(text, module, ports)``: the same of what yosys has written already, which a proof keeps
  (``Proof.verilog``). Modules get plain names; of ``top``, only the ports that are named stay ports.
* ``verilog.module_name(name)``: a Verilog identifier for a model.
* ``page.instantiation(module, ports)``, ``page.page(design, module)``: a template and the page on the streams.
* ``vectors.streams(design)``: every stream of a design as the bench knows it; ``vectors.vectors``: its golden beats.

``bench/`` are the files that every ``cocotb/`` folder has; they import neither the compiler nor each other.
"""
