// What an ECP5 MULT18X18D computes, for simulation only; written from the sysDSP usage guide (Lattice TN1267).
// Modelled: the product of the pins A and B; input, pipeline and output registers on CLK0 / CE0 / RST0 or bypassed;
// synchronous reset. Everything else (shift chains, C, other clocks, asynchronous reset) makes the output unknown.
module MULT18X18D (
  input A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0,
  input B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0,
  input C17, C16, C15, C14, C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1, C0,
  input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK0, CE0, RST0,
  output P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
  output P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
);
  parameter REG_INPUTA_CLK = "NONE";
  parameter REG_INPUTA_CE = "CE0";
  parameter REG_INPUTA_RST = "RST0";
  parameter REG_INPUTB_CLK = "NONE";
  parameter REG_INPUTB_CE = "CE0";
  parameter REG_INPUTB_RST = "RST0";
  parameter REG_PIPELINE_CLK = "NONE";
  parameter REG_PIPELINE_CE = "CE0";
  parameter REG_PIPELINE_RST = "RST0";
  parameter REG_OUTPUT_CLK = "NONE";
  parameter REG_OUTPUT_CE = "CE0";
  parameter REG_OUTPUT_RST = "RST0";
  parameter GSR = "ENABLED";
  parameter RESETMODE = "SYNC";

  // An operand with its sign: 19 bits hold every signed and every unsigned 18-bit integer.
  wire [18:0] a = {SIGNEDA & A17, A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
  wire [18:0] b = {SIGNEDB & B17, B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};

  reg [18:0] a_register = 0, b_register = 0;
  wire signed [18:0] x = REG_INPUTA_CLK == "CLK0" ? a_register : a;
  wire signed [18:0] y = REG_INPUTB_CLK == "CLK0" ? b_register : b;

  wire signed [37:0] product = x * y;
  reg [35:0] pipeline_register = 0, output_register = 0;
  wire [35:0] before_output = REG_PIPELINE_CLK == "CLK0" ? pipeline_register : product[35:0];

  always @(posedge CLK0) begin
    if (RST0) begin
      a_register <= 0;
      b_register <= 0;
      pipeline_register <= 0;
      output_register <= 0;
    end else if (CE0) begin
      a_register <= a;
      b_register <= b;
      pipeline_register <= product[35:0];
      output_register <= before_output;
    end
  end

  wire modelled =
    !SOURCEA && !SOURCEB && RESETMODE == "SYNC" &&
    (REG_INPUTA_CLK == "CLK0" || REG_INPUTA_CLK == "NONE") && REG_INPUTA_CE == "CE0" && REG_INPUTA_RST == "RST0" &&
    (REG_INPUTB_CLK == "CLK0" || REG_INPUTB_CLK == "NONE") && REG_INPUTB_CE == "CE0" && REG_INPUTB_RST == "RST0" &&
    (REG_PIPELINE_CLK == "CLK0" || REG_PIPELINE_CLK == "NONE") && REG_PIPELINE_CE == "CE0" &&
    REG_PIPELINE_RST == "RST0" &&
    (REG_OUTPUT_CLK == "CLK0" || REG_OUTPUT_CLK == "NONE") && REG_OUTPUT_CE == "CE0" && REG_OUTPUT_RST == "RST0";
  wire [35:0] p = REG_OUTPUT_CLK == "CLK0" ? output_register : before_output;
  assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
          P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = modelled ? p : 36'bx;
endmodule
