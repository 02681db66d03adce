/* Parts that all plots share: data and colours of the page, numbers, the text at the pointer, sizes. */
"use strict";

const FONT = "12px system-ui, sans-serif";
const plots = [];

const dataOf = (id) => JSON.parse(document.getElementById(id).textContent);
const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
const figures = (value, digits = 4) => value.toLocaleString(
  "en", Math.abs(value) >= 10 ** (digits - 1) ? {maximumFractionDigits: 0} : {maximumSignificantDigits: digits});

const textWidth = (() => {
  const context = document.createElement("canvas").getContext("2d");
  context.font = FONT;
  return (text) => context.measureText(text).width;
})();

/* Return the end of a name, at most `pixels` wide: long names that exporters write differ at their end. */
const ended = (name, pixels) => {
  if (textWidth(name) <= pixels) return name;
  let from = 1;
  while (from < name.length && textWidth("…" + name.slice(from)) > pixels) from += 1;
  return "…" + name.slice(from);
};

const axis = (label, more = {}) => ({
  label, labelSize: 20, labelGap: 2, labelFont: FONT, font: FONT, gap: 4,
  stroke: () => colour("--soft"),
  grid: {stroke: () => colour("--line"), width: 1},
  ticks: {stroke: () => colour("--line"), width: 1, size: 4},
  values: (plot, splits) => splits.map((value) => (value === null ? "" : figures(value))),
  ...more,
});
const across = (label, more = {}) => axis(label, {size: 26, space: 64, ...more});
const upright = (label, more = {}) => axis(label, {
  size: (plot, values) => 12 + Math.max(12, ...(values ?? []).map((text) => textWidth(text ?? ""))), ...more,
});

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);

const hideTip = () => { tip.hidden = true; };
const showTip = (event, lines) => {
  tip.replaceChildren(...lines.map((line, k) => {
    const part = document.createElement(k ? "div" : "b");
    part.textContent = line;
    return part;
  }));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - box.width - 4);
  const top = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 16;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
};

/* Place a plot in an element, as wide as that is. */
const plotIn = (element, height, options, data) => {
  const plot = new uPlot(
    {width: element.clientWidth, height, legend: {show: false}, cursor: {drag: {x: false, y: false}}, ...options},
    data, element);
  new ResizeObserver(() => {
    if (element.clientWidth !== plot.width) plot.setSize({width: element.clientWidth, height});
  }).observe(element);
  plots.push(plot);
  return plot;
};

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const plot of plots) plot.redraw(true, true);
});

/* Return the point nearest to the pointer; undefined if it is `reach` pixels away or more. */
const nearest = (plot, event, points, reach = 18) => {
  const box = plot.over.getBoundingClientRect();
  let best, least = reach;
  for (const point of points) {
    const apart = Math.hypot(
      plot.valToPos(point.x, "x") - (event.clientX - box.left), plot.valToPos(point.y, "y") - (event.clientY - box.top));
    if (apart < least) [best, least] = [point, apart];
  }
  return best;
};

const circle = (plot, x, y, radius, paint) => {
  const scale = devicePixelRatio;
  plot.ctx.beginPath();
  plot.ctx.arc(plot.valToPos(x, "x", true), plot.valToPos(y, "y", true), radius * scale, 0, 2 * Math.PI);
  paint(plot.ctx, scale);
};
