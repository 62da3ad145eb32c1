"use strict";
// A line over time, drawn anew at each look; null values leave gaps.
const MARGIN = { left: 44, right: 10, top: 8, bottom: 18 };

function svg(tag, attributes, text = "") {
  const found = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.textContent = text;
  return found;
}

function chart(id, times, values, highest, format) {
  const host = document.getElementById(id), readout = document.getElementById(`${id}-at`);
  const wide = host.clientWidth || 300, high = host.clientHeight || 150;
  const inner = { w: wide - MARGIN.left - MARGIN.right, h: high - MARGIN.top - MARGIN.bottom };
  const first = times[0], span = times.at(-1) - first || 1; // one point has no span
  const x = (time) => MARGIN.left + (inner.w * (time - first)) / span;
  const y = (value) => MARGIN.top + inner.h * (1 - value / highest);
  const drawing = svg("svg", { width: wide, height: high, role: "img", "aria-label": `${id} over time` });
  for (const level of [0, highest / 2, highest]) {
    drawing.append(svg("line", { class: "grid", x1: MARGIN.left, x2: wide - MARGIN.right, y1: y(level), y2: y(level) }));
    drawing.append(svg("text", { x: MARGIN.left - 5, y: y(level) + 4, "text-anchor": "end" }, format(level).replace(/\.0(?!\d)/, "")));
  }
  const known = values.map((value, index) => ({ value, time: times[index] })).filter((p) => p.value !== null);
  const last = known.at(-1);
  readout.textContent = last ? format(last.value) : "";
  if (last) {
    let path = "", gap = true;
    values.forEach((value, index) => {
      if (value !== null) path += `${gap ? "M" : "L"}${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`;
      gap = value === null;
    });
    drawing.append(svg("path", { class: "line", d: path }));
    drawing.append(svg("circle", { class: "end", r: 3.5, cx: x(last.time), cy: y(last.value) }));
    drawing.append(svg("text", { x: MARGIN.left, y: high - 4 }, clock(first)));
    if (times.length > 1) drawing.append(svg("text", { x: wide - MARGIN.right, y: high - 4, "text-anchor": "end" }, clock(times.at(-1))));
    drawing.onpointermove = (event) => {
      const wanted = first + (span * (event.offsetX - MARGIN.left)) / inner.w;
      const near = known.reduce((a, b) => (Math.abs(b.time - wanted) < Math.abs(a.time - wanted) ? b : a));
      readout.textContent = `${clock(near.time)}: ${format(near.value)}`;
    };
    drawing.onpointerleave = () => { readout.textContent = format(last.value); };
  } else {
    const nothing = { x: MARGIN.left + inner.w / 2, y: high / 2 - 8, "text-anchor": "middle" };
    drawing.append(svg("text", nothing, times.length ? "no estimate yet" : "nothing since the service began"));
  }
  host.replaceChildren(drawing);
}
