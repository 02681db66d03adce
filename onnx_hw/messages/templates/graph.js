/* The dataflow graph: dagre places the nodes of the list and the streams between them. */
"use strict";

/* Greatest number of places at which streams pass other nodes: dagre needs seconds for more, and nobody can follow it. */
const MAX_PASSED = 500;

/* Return the positions of the edges that are drawn: the shortest ones, until together they pass MAX_PASSED nodes. The
   items are in the order of the data. */
const drawnEdges = (items, edges) => {
  const into = new Map(items.map((item) => [item.id, []]));
  for (const edge of edges) into.get(edge.end).push(edge.start);
  const rank = new Map();
  for (const item of items) rank.set(item.id, 1 + Math.max(-1, ...into.get(item.id).map((start) => rank.get(start))));
  const passed = (k) => rank.get(edges[k].end) - rank.get(edges[k].start) - 1;
  let sum = 0;
  return new Set([...edges.keys()].sort((one, other) => passed(one) - passed(other)).filter((k) => {
    sum += passed(k);
    return sum <= MAX_PASSED;
  }));
};

/* Name the streams that are not drawn in the nodes at their ends. */
const nameDistant = (items, edges, drawn) => {
  const full = new Map(items.map((item) => [item.id, item.querySelector(".name").textContent.trim()]));
  for (const item of items) {
    for (const [arrow, own, other] of [["→", "start", "end"], ["←", "end", "start"]]) {
      const distant = edges.filter((edge, k) => !drawn.has(k) && edge[own] === item.id);
      if (!distant.length) continue;
      const line = document.createElement("span");
      line.className = "soft distant";
      line.textContent = `${arrow} ${distant.length} distant`;
      line.addEventListener("mousemove", (event) => showTip(event, [
        `${arrow} not drawn:`, ...distant.map((edge) => `${full.get(edge[other])}, ${edge.label}`)]));
      line.addEventListener("mouseleave", hideTip);
      item.firstElementChild.append(line);
    }
  }
};

const drawGraph = () => {
  const flow = document.querySelector(".flow");
  if (!flow) return;
  const {edges: all} = dataOf("graph");
  const items = [...flow.querySelectorAll("li")];
  const drawn = drawnEdges(items, all);
  const edges = all.filter((edge, k) => drawn.has(k));
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  flow.prepend(svg);
  flow.classList.add("drawn");
  nameDistant(items, all, drawn);
  shortenNames(items);

  const graph = new dagre.graphlib.Graph({multigraph: true});
  graph.setGraph({rankdir: "TB", nodesep: 22, edgesep: 14, ranksep: 34, marginx: 6, marginy: 6});
  const sizes = new Map(items.map((item) => [item.id, {width: item.offsetWidth, height: item.offsetHeight}]));
  for (const [id, size] of sizes) graph.setNode(id, {...size});
  const labels = edges.map((edge) => {
    const label = document.createElement("span");
    label.className = "edge";
    label.textContent = edge.label;
    label.addEventListener("mousemove", (event) => showTip(event, edge.lines));
    label.addEventListener("mouseleave", hideTip);
    return label;
  });
  flow.append(...labels);
  const labelSizes = labels.map((label) => ({width: label.offsetWidth, height: label.offsetHeight}));
  edges.forEach((edge, k) => graph.setEdge(edge.start, edge.end, {...labelSizes[k], labelpos: "c"}, `${k}`));
  dagre.layout(graph);

  const {width, height} = graph.graph();
  flow.style.width = `${Math.ceil(width)}px`;
  flow.style.height = `${Math.ceil(height)}px`;
  svg.setAttribute("width", Math.ceil(width));
  svg.setAttribute("height", Math.ceil(height));
  const put = (element, at, size) => {
    element.style.left = `${Math.round(at.x - size.width / 2)}px`;
    element.style.top = `${Math.round(at.y - size.height / 2)}px`;
  };
  for (const item of items) put(item, graph.node(item.id), sizes.get(item.id));
  edges.forEach((edge, k) => {
    const at = graph.edge(edge.start, edge.end, `${k}`);
    put(labels[k], at, labelSizes[k]);
    const end = at.points.at(-1);
    for (const [line, kind] of [[curve(at.points), "line"], [`M${end.x - 4} ${end.y - 7}h8l-4 7z`, "head"]]) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("class", kind);
      path.setAttribute("d", line);
      svg.append(path);
    }
  });
  const scroller = flow.parentElement;
  const hot = items.find((item) => item.classList.contains("hot"));
  scroller.scrollLeft = graph.node((hot || items[0]).id).x - scroller.clientWidth / 2;
  scroller.scrollTop = hot ? graph.node(hot.id).y - scroller.clientHeight / 2 : 0;
};

/* Cut names off at their beginning, so that their ends fit; the font has one width. */
const shortenNames = (items) => {
  const names = items.map((item) => item.querySelector(".name"));
  const full = names.map((name) => name.textContent.trim());
  names[0].replaceChildren("0".repeat(20));
  const range = document.createRange();
  range.selectNodeContents(names[0]);
  const character = range.getBoundingClientRect().width / 20;
  const rooms = names.map((name) => Math.floor(name.clientWidth / character));
  names.forEach((name, k) => {
    const room = rooms[k];
    name.replaceChildren(full[k].length <= room ? full[k] : `…${full[k].slice(2 - room)}`);
  });
};

/* Return a smooth path through the points at which dagre bends a stream. */
const curve = (points) => {
  const at = (point) => `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
  const inner = points.slice(1, -1).map((point, k) => {
    const next = points[k + 2];
    return `Q${at(point)} ${at({x: (point.x + next.x) / 2, y: (point.y + next.y) / 2})}`;
  });
  return `M${at(points[0])}${inner.join("")}L${at(points.at(-1))}`;
};

drawGraph();
