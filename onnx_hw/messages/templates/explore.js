/* Plots of an exploration: frames per second over everything that they cost. Points and rows of the table are linked. */
"use strict";

const explored = dataOf("explored");
const pictures = [];
let chosen = null; // number of the row that is marked in every plot

const choose = (row) => {
  if (row === chosen) return;
  chosen = row;
  for (const plot of pictures) plot.redraw(false, false);
};

for (const element of document.querySelectorAll(".scatter")) {
  const shown = explored.axes[element.dataset.axis];
  const points = explored.rows
    .filter((row) => row.values[shown.key] !== null)
    .map((row) => ({x: row.values[shown.key], y: row.rate, row}))
    .sort((one, other) => one.x - other.x);
  const classes = [
    {colour: "--three", size: 8, of: (row) => !row.best},
    {colour: "--one", size: 9, of: (row) => row.best && !row.knee},
    {colour: "--two", size: 12, of: (row) => row.knee},
  ];
  const fromZero = (plot, least, most) => [0, most ? 1.05 * most : 1];
  const loose = (plot, least, most) => {
    const room = 0.08 * (most - least) || 1;
    return [least - room, most + room];
  };
  const plot = plotIn(element, 260, {
    scales: {x: {time: false, range: shown.from_zero ? fromZero : loose}, y: {range: fromZero}},
    axes: [across(shown.label), upright("frames per second")],
    series: [{}, ...classes.map((each) => ({
      paths: () => null,
      points: {show: true, size: each.size, width: 1, fill: () => colour(each.colour), stroke: () => colour("--card")},
    }))],
    cursor: {points: {show: false}, drag: {x: false, y: false}},
    hooks: {draw: [(drawn) => {
      const marked = points.find((point) => point.row.number === chosen);
      if (marked) circle(drawn, marked.x, marked.y, 9, (context, scale) => {
        context.lineWidth = 2 * scale;
        context.strokeStyle = colour("--ink");
        context.stroke();
      });
    }]},
  }, [points.map((point) => point.x), ...classes.map((each) => points.map((p) => (each.of(p.row) ? p.y : null)))]);
  pictures.push(plot);
  plot.over.addEventListener("mousemove", (event) => {
    const point = nearest(plot, event, points);
    plot.over.style.cursor = point ? "pointer" : "";
    choose(point ? point.row.number : null);
    if (point) showTip(event, [point.row.name, ...point.row.lines]);
    else hideTip();
  });
  plot.over.addEventListener("mouseleave", () => { choose(null); hideTip(); });
  plot.over.addEventListener("click", (event) => {
    const point = nearest(plot, event, points);
    if (point) location.hash = `row-${point.row.number}`;
  });
}

for (const row of document.querySelectorAll("tr[data-row]")) {
  row.addEventListener("mouseenter", () => choose(Number(row.dataset.row)));
  row.addEventListener("mouseleave", () => choose(null));
}
