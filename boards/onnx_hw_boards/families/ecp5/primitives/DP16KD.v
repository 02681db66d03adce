// What an ECP5 DP16KD does when it is read, for simulation only; written from the memory usage guide (Lattice TN1264).
// Modelled: the initial contents, reading through ports of 1, 2, 4, 9 or 18 bits, the output registers, synchronous
// reset. Not modelled: writing (a write makes the output unknown), 36-bit ports, other select codes than 0.
module DP16KD (
  input CLKA, CEA, OCEA, WEA, RSTA, CSA2, CSA1, CSA0,
  input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
  output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
  input CLKB, CEB, OCEB, WEB, RSTB, CSB2, CSB1, CSB0,
  input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
  output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
  parameter DATA_WIDTH_A = 18;
  parameter DATA_WIDTH_B = 18;
  parameter REGMODE_A = "NOREG";
  parameter REGMODE_B = "NOREG";
  parameter RESETMODE = "SYNC";
  parameter GSR = "ENABLED";
  parameter [319:0] INITVAL_00 = 320'b0;
  parameter [319:0] INITVAL_01 = 320'b0;
  parameter [319:0] INITVAL_02 = 320'b0;
  parameter [319:0] INITVAL_03 = 320'b0;
  parameter [319:0] INITVAL_04 = 320'b0;
  parameter [319:0] INITVAL_05 = 320'b0;
  parameter [319:0] INITVAL_06 = 320'b0;
  parameter [319:0] INITVAL_07 = 320'b0;
  parameter [319:0] INITVAL_08 = 320'b0;
  parameter [319:0] INITVAL_09 = 320'b0;
  parameter [319:0] INITVAL_0A = 320'b0;
  parameter [319:0] INITVAL_0B = 320'b0;
  parameter [319:0] INITVAL_0C = 320'b0;
  parameter [319:0] INITVAL_0D = 320'b0;
  parameter [319:0] INITVAL_0E = 320'b0;
  parameter [319:0] INITVAL_0F = 320'b0;
  parameter [319:0] INITVAL_10 = 320'b0;
  parameter [319:0] INITVAL_11 = 320'b0;
  parameter [319:0] INITVAL_12 = 320'b0;
  parameter [319:0] INITVAL_13 = 320'b0;
  parameter [319:0] INITVAL_14 = 320'b0;
  parameter [319:0] INITVAL_15 = 320'b0;
  parameter [319:0] INITVAL_16 = 320'b0;
  parameter [319:0] INITVAL_17 = 320'b0;
  parameter [319:0] INITVAL_18 = 320'b0;
  parameter [319:0] INITVAL_19 = 320'b0;
  parameter [319:0] INITVAL_1A = 320'b0;
  parameter [319:0] INITVAL_1B = 320'b0;
  parameter [319:0] INITVAL_1C = 320'b0;
  parameter [319:0] INITVAL_1D = 320'b0;
  parameter [319:0] INITVAL_1E = 320'b0;
  parameter [319:0] INITVAL_1F = 320'b0;
  parameter [319:0] INITVAL_20 = 320'b0;
  parameter [319:0] INITVAL_21 = 320'b0;
  parameter [319:0] INITVAL_22 = 320'b0;
  parameter [319:0] INITVAL_23 = 320'b0;
  parameter [319:0] INITVAL_24 = 320'b0;
  parameter [319:0] INITVAL_25 = 320'b0;
  parameter [319:0] INITVAL_26 = 320'b0;
  parameter [319:0] INITVAL_27 = 320'b0;
  parameter [319:0] INITVAL_28 = 320'b0;
  parameter [319:0] INITVAL_29 = 320'b0;
  parameter [319:0] INITVAL_2A = 320'b0;
  parameter [319:0] INITVAL_2B = 320'b0;
  parameter [319:0] INITVAL_2C = 320'b0;
  parameter [319:0] INITVAL_2D = 320'b0;
  parameter [319:0] INITVAL_2E = 320'b0;
  parameter [319:0] INITVAL_2F = 320'b0;
  parameter [319:0] INITVAL_30 = 320'b0;
  parameter [319:0] INITVAL_31 = 320'b0;
  parameter [319:0] INITVAL_32 = 320'b0;
  parameter [319:0] INITVAL_33 = 320'b0;
  parameter [319:0] INITVAL_34 = 320'b0;
  parameter [319:0] INITVAL_35 = 320'b0;
  parameter [319:0] INITVAL_36 = 320'b0;
  parameter [319:0] INITVAL_37 = 320'b0;
  parameter [319:0] INITVAL_38 = 320'b0;
  parameter [319:0] INITVAL_39 = 320'b0;
  parameter [319:0] INITVAL_3A = 320'b0;
  parameter [319:0] INITVAL_3B = 320'b0;
  parameter [319:0] INITVAL_3C = 320'b0;
  parameter [319:0] INITVAL_3D = 320'b0;
  parameter [319:0] INITVAL_3E = 320'b0;
  parameter [319:0] INITVAL_3F = 320'b0;

  // A row is a parameter: 16 words of 18 bits, each padded to 20. A word is two bytes of 9 bits; ports of 4, 2 and 1 bit
  // do not see the highest bit of a byte.
  reg [319:0] rows [0:63];
  initial begin
    rows[0] = INITVAL_00; rows[1] = INITVAL_01; rows[2] = INITVAL_02; rows[3] = INITVAL_03;
    rows[4] = INITVAL_04; rows[5] = INITVAL_05; rows[6] = INITVAL_06; rows[7] = INITVAL_07;
    rows[8] = INITVAL_08; rows[9] = INITVAL_09; rows[10] = INITVAL_0A; rows[11] = INITVAL_0B;
    rows[12] = INITVAL_0C; rows[13] = INITVAL_0D; rows[14] = INITVAL_0E; rows[15] = INITVAL_0F;
    rows[16] = INITVAL_10; rows[17] = INITVAL_11; rows[18] = INITVAL_12; rows[19] = INITVAL_13;
    rows[20] = INITVAL_14; rows[21] = INITVAL_15; rows[22] = INITVAL_16; rows[23] = INITVAL_17;
    rows[24] = INITVAL_18; rows[25] = INITVAL_19; rows[26] = INITVAL_1A; rows[27] = INITVAL_1B;
    rows[28] = INITVAL_1C; rows[29] = INITVAL_1D; rows[30] = INITVAL_1E; rows[31] = INITVAL_1F;
    rows[32] = INITVAL_20; rows[33] = INITVAL_21; rows[34] = INITVAL_22; rows[35] = INITVAL_23;
    rows[36] = INITVAL_24; rows[37] = INITVAL_25; rows[38] = INITVAL_26; rows[39] = INITVAL_27;
    rows[40] = INITVAL_28; rows[41] = INITVAL_29; rows[42] = INITVAL_2A; rows[43] = INITVAL_2B;
    rows[44] = INITVAL_2C; rows[45] = INITVAL_2D; rows[46] = INITVAL_2E; rows[47] = INITVAL_2F;
    rows[48] = INITVAL_30; rows[49] = INITVAL_31; rows[50] = INITVAL_32; rows[51] = INITVAL_33;
    rows[52] = INITVAL_34; rows[53] = INITVAL_35; rows[54] = INITVAL_36; rows[55] = INITVAL_37;
    rows[56] = INITVAL_38; rows[57] = INITVAL_39; rows[58] = INITVAL_3A; rows[59] = INITVAL_3B;
    rows[60] = INITVAL_3C; rows[61] = INITVAL_3D; rows[62] = INITVAL_3E; rows[63] = INITVAL_3F;
  end

  wire [13:0] address_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
  wire [319:0] row_a = rows[address_a[13:8]];
  wire [17:0] word_a = row_a[20 * address_a[7:4] +: 18];
  wire [8:0] byte_a = address_a[3] ? word_a[17:9] : word_a[8:0];
  wire [17:0] selected_a =
    DATA_WIDTH_A == 18 ? word_a :
    DATA_WIDTH_A == 9 ? byte_a :
    DATA_WIDTH_A == 4 ? byte_a[{address_a[2], 2'b00} +: 4] :
    DATA_WIDTH_A == 2 ? byte_a[{address_a[2:1], 1'b0} +: 2] :
    DATA_WIDTH_A == 1 ? byte_a[address_a[2:0]] : 18'bx;
  reg [17:0] read_a = 0, output_a = 0;
  always @(posedge CLKA) begin
    if (RSTA) read_a <= 0;
    else if (CEA && {CSA2, CSA1, CSA0} == 3'b000) read_a <= WEA ? 18'bx : selected_a;
    if (RSTA) output_a <= 0;
    else if (OCEA) output_a <= read_a;
  end
  assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} = REGMODE_A == "OUTREG" ? output_a : read_a;

  wire [13:0] address_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
  wire [319:0] row_b = rows[address_b[13:8]];
  wire [17:0] word_b = row_b[20 * address_b[7:4] +: 18];
  wire [8:0] byte_b = address_b[3] ? word_b[17:9] : word_b[8:0];
  wire [17:0] selected_b =
    DATA_WIDTH_B == 18 ? word_b :
    DATA_WIDTH_B == 9 ? byte_b :
    DATA_WIDTH_B == 4 ? byte_b[{address_b[2], 2'b00} +: 4] :
    DATA_WIDTH_B == 2 ? byte_b[{address_b[2:1], 1'b0} +: 2] :
    DATA_WIDTH_B == 1 ? byte_b[address_b[2:0]] : 18'bx;
  reg [17:0] read_b = 0, output_b = 0;
  always @(posedge CLKB) begin
    if (RSTB) read_b <= 0;
    else if (CEB && {CSB2, CSB1, CSB0} == 3'b000) read_b <= WEB ? 18'bx : selected_b;
    if (RSTB) output_b <= 0;
    else if (OCEB) output_b <= read_b;
  end
  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0} = REGMODE_B == "OUTREG" ? output_b : read_b;
endmodule
