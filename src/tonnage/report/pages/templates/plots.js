"use strict";
// Values under the pointer, or under the arrow keys, of every plot that brought its numbers along. A plot that takes
// the place of another one of its name goes on where that was read.
const read = new Map();   // by plot, the place at which it is read
function readPlots(within) {
  const all = "figure[data-values]";
  for (const figure of within.matches?.(all) ? [within] : within.querySelectorAll(all)) {
    const values = JSON.parse(document.getElementById(figure.dataset.values).textContent);
    const tip = figure.appendChild(document.createElement("div"));
    tip.className = "tip";
    tip.hidden = true;
    tip.setAttribute("role", "status");
    for (const plot of figure.querySelectorAll("svg.plot")) readPlot(figure, plot, values, tip);
  }
}

function readPlot(figure, plot, values, tip) {
  const cursor = plot.querySelector(".cursor");
  const [left, right, low, high] = ["left", "right", "low", "high"].map(name => Number(plot.dataset[name]));
  const inside = values.at.map((at, i) => i).filter(i => values.at[i] >= low && values.at[i] <= high);
  const place = i => left + (values.at[i] - low) / (high - low) * (right - left);
  let current = -1;

  const hide = () => {
    tip.hidden = true;
    cursor.setAttribute("visibility", "hidden");
    read.delete(plot.id);
  };
  const nearest = x => inside.reduce((best, i) => Math.abs(place(i) - x) < Math.abs(place(best) - x) ? i : best, inside[0]);
  const show = i => {
    current = i;
    read.set(plot.id, values.at[i]);
    const shown = values.lines.filter(line => line.values[i] !== null && visible(figure, line.look));
    shown.sort((a, b) => b.values[i] - a.values[i]);
    const head = document.createElement("b");
    head.textContent = values.names?.[i] ?? new Date(values.at[i] * 1000).toISOString().slice(5, 19).replace("T", " ") + " UTC";
    const table = document.createElement("table");
    for (const line of shown) {
      const row = table.insertRow();
      row.insertCell().textContent = line.name;
      row.insertCell().textContent = line.values[i].toLocaleString("en", { minimumFractionDigits: values.digits }) + values.unit;
    }
    tip.replaceChildren(head, table);
    tip.hidden = false;
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x1", place(i));
    cursor.setAttribute("x2", place(i));
    const box = plot.getBoundingClientRect(), outer = figure.getBoundingClientRect();
    const x = box.left - outer.left + place(i) / plot.viewBox.baseVal.width * box.width;
    const beside = x + 14 + tip.offsetWidth <= outer.width ? x + 14 : x - 14 - tip.offsetWidth;
    tip.style.left = Math.max(0, Math.min(beside, outer.width - tip.offsetWidth)) + "px";
    tip.style.top = box.top - outer.top + 8 + "px";
  };
  plot.addEventListener("pointermove", event => {
    const box = plot.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * plot.viewBox.baseVal.width;
    if (!inside.length || x < left - 8 || x > right + 8) return hide();
    show(nearest(x));
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step || !inside.length) return;
    event.preventDefault();
    const next = current < 0 || tip.hidden ? inside.length - 1 : inside.indexOf(current) + step;
    show(inside[Math.max(0, Math.min(inside.length - 1, next))]);
  });
  if (read.has(plot.id) && inside.length) show(nearest(left + (read.get(plot.id) - low) / (high - low) * (right - left)));
}

function visible(figure, look) {
  const line = figure.querySelector(".line.series-" + look);
  return !line || getComputedStyle(line).display !== "none";
}
