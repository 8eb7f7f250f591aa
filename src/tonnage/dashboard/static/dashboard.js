"use strict";
// Pages are whole without this script. It keeps them current, sorts tables, and lets arrow keys walk over nodes.
const body = document.body, root = document.documentElement;
root.classList.add("scripted");

// -- colours: the choice is kept by this browser alone
const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
for (const input of document.querySelectorAll(".theme input")) {
  if (input.value === kept()) input.checked = true;
  input.addEventListener("change", () => { try { localStorage.setItem("theme", input.value); } catch { /* not kept */ } });
}

// -- ages: relative to the cluster's clock, which a simulation lets run faster
let now = Number(body.dataset.now), seen = Number(body.dataset.seen), told = performance.now(), lost = 0;
let trouble = document.getElementById("status")?.dataset.trouble || "";
function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
}
function showAges(within) {
  for (const time of within.querySelectorAll("time[data-t]")) {
    const words = span(now - Number(time.dataset.t));
    if (time.textContent !== words) time.textContent = words;
  }
}
const clock = seconds => new Date(seconds * 1000).toISOString().slice(11, 19) + " UTC";
function showStatus() {
  const status = document.getElementById("status");
  const old = lost || trouble;
  status.classList.toggle("live", !old && Boolean(source));
  status.classList.toggle("old", Boolean(old));
  let words = "Live, " + clock(seen);
  if (body.dataset.still === "yes") words = "As in the files, " + clock(now);
  else if (old) {
    const age = lost ? (performance.now() - lost) / 1000 + (now - seen) : now - seen;
    words = "Picture of " + clock(seen) + ", " + span(age) + " old" + (trouble ? ": " + trouble : ": no answer from the dashboard");
  } else if (!source) words = "Paused, " + clock(seen);
  const place = status.querySelector("span");
  if (place.textContent !== words) place.textContent = words;
}

// -- what changes: elements by id, with their parent and the one before them
let source = null, address = body.dataset.stream ? new URL(body.dataset.stream, location.href) : null;
const shell = document.createElement("template");
function made(html, parent) {
  shell.innerHTML = html.trim();
  const found = shell.content.firstElementChild;
  shell.innerHTML = "";
  return found && parent.ownerDocument.importNode(found, true);
}
function apply(update) {
  const touched = new Set();
  for (const id of update.gone) document.getElementById(id)?.remove();
  for (const [holder, id, before, html] of update.set) {
    const parent = document.getElementById(holder), old = document.getElementById(id);
    if (!parent) continue;
    const fresh = made(html, parent);
    if (!fresh) continue;
    if (old) replace(old, fresh);
    else {
      const last = before && document.getElementById(before);
      if (last && last.parentNode === parent) last.after(fresh); else parent.prepend(fresh);
      if (fresh.tagName === "TR") fresh.classList.add("fresh");
    }
    touched.add(fresh);
  }
  for (const element of touched) { showAges(element); sortable(element); readPlots(element); }
}
function replace(old, fresh) {
  // Whoever is in the element stays there, what was opened stays open, and plots are read where they were.
  const at = old.contains(document.activeElement) ? document.activeElement : null;
  const open = [...old.querySelectorAll("details")].map(one => one.open);
  fresh.querySelectorAll("details").forEach((one, number) => { one.open = Boolean(open[number]); });
  const places = [...read];
  old.replaceWith(fresh);
  for (const [plot, place] of places) read.set(plot, place);
  if (!at) return;
  const same = [fresh, ...fresh.querySelectorAll("a, svg, summary, [tabindex]")].find(one => one.tagName === at.tagName &&
    one.id === at.id && one.getAttribute("href") === at.getAttribute("href"));
  same?.focus({ preventScroll: true });
}
function follow() {
  if (!address || source || document.hidden) return;
  source = new EventSource(address);
  source.onmessage = event => {
    const update = JSON.parse(event.data);
    now = update.now; seen = update.seen; trouble = update.trouble; told = performance.now(); lost = 0;
    address.searchParams.set("stamp", update.stamp);
    if (update.set.length || update.gone.length) apply(update);
    const badge = document.getElementById("waiting-badge");
    if (badge && update.waiting !== null) badge.textContent = update.waiting.toLocaleString("en");
    showStatus();
  };
  source.addEventListener("reload", () => { leave(); location.reload(); });
  source.addEventListener("gone", () => { leave(); address = null; trouble = "it is gone"; showStatus(); });
  source.onerror = () => {
    lost ||= performance.now();
    // The next connection begins where this one ended, so it is made here and not by the browser.
    leave();
    setTimeout(follow, 3000);
    showStatus();
  };
}
function leave() { source?.close(); source = null; }
document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); else follow(); showStatus(); });
addEventListener("pagehide", leave);
addEventListener("pageshow", follow);
setInterval(() => { if (lost) showStatus(); showAges(document); }, 5000);

// -- tables
function sortable(within) {
  const tables = within.matches?.("table.sorts") ? [within] : within.querySelectorAll?.("table.sorts") ?? [];
  for (const table of tables) {
    for (const head of table.tHead.rows[0].cells) {
      if (head.classList.contains("still") || head.querySelector("button")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, head));
    }
  }
}
function sort(table, head) {
  const column = head.cellIndex, numbers = head.dataset.sort === "number";
  const up = head.getAttribute("aria-sort") === (numbers ? "descending" : "ascending") ? !numbers : numbers;
  const falling = up;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falling ? "descending" : "ascending");
  const value = row => numbers ? Number(row.cells[column]?.dataset.v ?? 0) : (row.cells[column]?.textContent ?? "");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    const order = numbers ? one - other : one.localeCompare(other, "en", { numeric: true });
    return falling ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

// -- nodes: arrows walk, forms answer at once
document.getElementById("nodes")?.addEventListener("keydown", event => {
  const at = event.target.closest(".node");
  if (!at || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
  event.preventDefault();
  const wide = getComputedStyle(at.parentNode).gridTemplateColumns.split(" ").length;
  const all = [...at.parentNode.children], step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide }[event.key];
  all[all.indexOf(at) + step]?.focus();
});
for (const form of document.querySelectorAll("form[data-auto]"))
  form.addEventListener("change", () => form.requestSubmit());
for (const form of document.querySelectorAll("form[data-slow]"))
  form.addEventListener("submit", () => { form.classList.add("busy"); form.setAttribute("aria-busy", "true"); });

sortable(document);
readPlots(document);
showAges(document);
follow();
showStatus();
