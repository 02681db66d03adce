/* The dataflow graph: dagre places the nodes of the list and the streams between them. */
"use strict";

const drawGraph = () => {
  const flow = document.querySelector(".flow");
  if (!flow) return;
  const {edges} = dataOf("graph");
  const items = [...flow.querySelectorAll("li")];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  flow.prepend(svg);
  flow.classList.add("drawn");
  shortenNames(items);

  const graph = new dagre.graphlib.Graph({multigraph: true});
  graph.setGraph({rankdir: "TB", nodesep: 22, edgesep: 14, ranksep: 34, marginx: 6, marginy: 6});
  for (const item of items) graph.setNode(item.id, {width: item.offsetWidth, height: item.offsetHeight});
  const labels = edges.map((edge, number) => {
    const label = document.createElement("span");
    label.className = "edge";
    label.textContent = edge.label;
    flow.append(label);
    graph.setEdge(edge.start, edge.end, {width: label.offsetWidth, height: label.offsetHeight, labelpos: "c"}, `${number}`);
    label.addEventListener("mousemove", (event) => showTip(event, edge.lines));
    label.addEventListener("mouseleave", hideTip);
    return label;
  });
  dagre.layout(graph);

  const {width, height} = graph.graph();
  flow.style.width = `${Math.ceil(width)}px`;
  flow.style.height = `${Math.ceil(height)}px`;
  svg.setAttribute("width", Math.ceil(width));
  svg.setAttribute("height", Math.ceil(height));
  const put = (element, at) => {
    element.style.left = `${Math.round(at.x - element.offsetWidth / 2)}px`;
    element.style.top = `${Math.round(at.y - element.offsetHeight / 2)}px`;
  };
  for (const item of items) put(item, graph.node(item.id));
  edges.forEach((edge, number) => {
    const at = graph.edge(edge.start, edge.end, `${number}`);
    put(labels[number], at);
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", curve(at.points));
    svg.append(path);
    const end = at.points.at(-1);
    const head = document.createElementNS("http://www.w3.org/2000/svg", "path");
    head.setAttribute("class", "head");
    head.setAttribute("d", `M${end.x - 4} ${end.y - 7}h8l-4 7z`);
    svg.append(head);
  });
  const scroller = flow.parentElement;
  scroller.scrollLeft = (scroller.scrollWidth - scroller.clientWidth) / 2;
};

/* Cut names off at their beginning, so that their ends fit; the font has one width. */
const shortenNames = (items) => {
  const names = items.map((item) => item.querySelector(".name"));
  const full = names.map((name) => name.textContent.trim());
  names[0].replaceChildren("0".repeat(20));
  const range = document.createRange();
  range.selectNodeContents(names[0]);
  const character = range.getBoundingClientRect().width / 20;
  names.forEach((name, k) => {
    const room = Math.floor(name.clientWidth / character);
    name.replaceChildren(full[k].length <= room ? full[k] : `…${full[k].slice(1 - room)}`);
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
