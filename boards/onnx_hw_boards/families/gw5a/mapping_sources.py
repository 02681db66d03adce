"""Sources that yosys reads when it maps a circuit on an Arora V, besides its own."""

from __future__ import annotations

WIDER_TABLES = """
module LUT1(output F, input I0);
  parameter INIT = 2'h0;
  LUT4 #(.INIT({8{INIT[1:0]}})) _TECHMAP_REPLACE_(.F(F), .I0(I0), .I1(1'b0), .I2(1'b0), .I3(1'b0));
endmodule
module LUT2(output F, input I0, I1);
  parameter INIT = 4'h0;
  LUT4 #(.INIT({4{INIT[3:0]}})) _TECHMAP_REPLACE_(.F(F), .I0(I0), .I1(I1), .I2(1'b0), .I3(1'b0));
endmodule
module LUT3(output F, input I0, I1, I2);
  parameter INIT = 8'h0;
  LUT4 #(.INIT({2{INIT[7:0]}})) _TECHMAP_REPLACE_(.F(F), .I0(I0), .I1(I1), .I2(I2), .I3(1'b0));
endmodule
"""
"""Look-up tables of fewer than four inputs as those of four, the only ones that nextpnr times on these chips."""

_RESETS = """
    option "RESET_MODE" "SYNC" { rdsrst zero ungated; }
    option "RESET_MODE" "ASYNC" { rdarst zero; }
    rdinit zero;
"""

BLOCK_RAMS = f"""
ram block $__GOWIN_SP_ {{
  abits 14; widths 1 2 4 9 18 36 per_port; cost 128; byte 9; init no_undef;
  port srsw "A" {{
    clock posedge; clken;
    {_RESETS}
    portoption "WRITE_MODE" 0 {{ rdwr no_change; }}
    portoption "WRITE_MODE" 1 {{ rdwr new; }}
    wrbe_separate;
  }}
}}
ram block $__GOWIN_SDP_ {{
  abits 14; widths 1 2 4 9 18 36 per_port; cost 128; byte 9; init no_undef;
  port sr "R" {{
    clock posedge; clken;
    {_RESETS}
  }}
  port sw "W" {{ clock posedge; clken; wrbe_separate; }}
}}
"""
"""Block RAMs as yosys describes them, but those with two whole ports: nextpnr does not time their second one."""
