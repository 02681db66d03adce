/* Plots of a build: work over time, and signal to noise per tensor. */
"use strict";

/* Every core is a lane, the first one at the top; a frame is as high in it as the share of a step at work. */
const drawTimeline = (element) => {
  const {cycles, step_cycles: step, cores} = dataOf("timeline");
  const count = cores.length;
  const lane = Math.max(9, Math.min(20, 9000 / count));
  const base = (core) => count - 1 - core;
  const digits = cores.map((core) => core.frames.map(
    (runs) => runs.flatMap(([digit, length]) => Array(length).fill(digit))));
  const steps = Math.max(...digits.flat().map((frame) => frame.length));
  const edges = Array.from({length: steps + 1}, (_, k) => k * step);
  const every = Math.ceil(13 / lane);
  const room = Math.min(180, element.clientWidth * 0.3);
  const names = cores.map((core) => ended(core.name, room));
  const stepped = uPlot.paths.stepped({align: 1});
  const series = digits.flatMap((frames, core) => frames.map((frame, number) => ({
    data: edges.map((_, k) => base(core) + 0.06 + (0.88 * (frame[k] ?? 0)) / 9),
    options: {
      paths: stepped, points: {show: false}, width: 0, fillTo: base(core) + 0.06,
      fill: () => colour(number % 2 ? "--two" : "--one"),
    },
  })));
  const plot = plotIn(element, Math.ceil(count * lane) + 62, {
    padding: [8, 26, 0, 0],
    scales: {x: {time: false, range: (drawn, least, most) => [least, Math.min(most, cycles)]}, y: {range: [0, count]}},
    axes: [
      across("clock cycles since the reset"),
      upright(undefined, {
        grid: {show: false},
        size: 10 + Math.max(...names.map(textWidth)),
        splits: () => cores.map((_, core) => base(core) + 0.5),
        values: () => names.map((name, core) => (core % every ? "" : name)),
      }),
    ],
    series: [{}, ...series.map((each) => each.options)],
    cursor: {points: {show: false}, drag: {x: true, y: false}},
  }, [edges, ...series.map((each) => each.data)]);
  const under = (event) => {
    const box = plot.over.getBoundingClientRect();
    const core = count - 1 - Math.floor(plot.posToVal(event.clientY - box.top, "y"));
    return {core, at: Math.floor(plot.posToVal(event.clientX - box.left, "x") / step)};
  };
  plot.over.addEventListener("mousemove", (event) => {
    const {core, at} = under(event);
    if (!cores[core] || at < 0 || at >= steps) return hideTip();
    const shares = digits[core].map((frame, k) => `frame ${k + 1}: at work about ${figures((100 * (frame[at] ?? 0)) / 9, 2)} %`);
    showTip(event, [cores[core].name, `cycles ${figures(at * step, 12)} to ${figures(Math.min(cycles, (at + 1) * step), 12)}`, ...shares]);
  });
  plot.over.addEventListener("mouseleave", hideTip);
};

const drawNoise = (element) => {
  const {tensors} = dataOf("noise");
  const height = 300;
  const named = tensors.length * 15 < element.clientWidth - 70;
  const names = tensors.map((tensor) => ended(tensor.name, 110));
  const points = tensors.map((tensor, x) => ({x, y: tensor.sqnr_db, tensor}));
  const lowest = Math.min(0, ...points.map((point) => point.y));
  const highest = Math.max(1, ...points.map((point) => point.y));
  const plot = plotIn(element, height, {
    padding: [10, 14, 0, 0],
    scales: {x: {time: false, range: [-0.5, tensors.length - 0.5]}, y: {range: [1.05 * lowest, 1.05 * highest]}},
    axes: [
      across("tensors in the order of the data, then the outputs of the model", named
        ? {rotate: -90, size: 10 + Math.max(...names.map(textWidth)), splits: () => points.map((point) => point.x), values: () => names}
        : {incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]}),
      upright("signal to noise, dB"),
    ],
    series: [{}, {
      width: 1, stroke: () => colour("--track"),
      points: {show: true, size: 8, width: 1, fill: () => colour("--one"), stroke: () => colour("--card")},
    }],
    cursor: {points: {show: false}, drag: {x: false, y: false}},
  }, [points.map((point) => point.x), points.map((point) => point.y)]);
  plot.over.addEventListener("mousemove", (event) => {
    const at = Math.round(plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x"));
    const tensor = tensors[at];
    plot.over.style.cursor = tensor && tensor.number !== null ? "pointer" : "";
    if (!tensor) return hideTip();
    showTip(event, [tensor.name, `${tensor.sqnr_db.toFixed(1)} dB`, tensor.bits === null ? "output of the model" : `${tensor.bits} bits`]);
  });
  plot.over.addEventListener("mouseleave", hideTip);
  plot.over.addEventListener("click", (event) => {
    const at = Math.round(plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x"));
    if (tensors[at] && tensors[at].number !== null) location.hash = `tensor-${tensors[at].number}`;
  });
};

for (const element of document.querySelectorAll(".timeline")) drawTimeline(element);
for (const element of document.querySelectorAll(".noise")) drawNoise(element);
