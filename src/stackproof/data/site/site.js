// What a page gains with scripts: zoom and figures under the pointer, a filter of series, and a word when the page is old.
// Without them nothing is missing that says a verdict. The view is in the address, so that a link shows a colleague the same.
"use strict";
(function () {
  const DAY = 86400000;

  function made(tag, text, parent) {
    const one = document.createElement(tag);
    one.textContent = text;
    parent.append(one);
    return one;
  }

  function asked() { return new URLSearchParams(location.hash.slice(1)); }

  function keep(pairs) {
    const all = asked();
    for (const [name, value] of Object.entries(pairs)) { value === "" ? all.delete(name) : all.set(name, value); }
    history.replaceState(null, "", all.size ? "#" + all : location.pathname + location.search);
  }

  // A page that nobody builds anew stays as it was: say so once its greens are older than they may be.
  function age() {
    const place = document.getElementById("as-of");
    if (!place) { return; }
    const days = Math.floor((Date.now() - Date.parse(place.dataset.day)) / DAY);
    if (days < 2) { return; }
    const late = days > Number(place.dataset.days);
    place.className = "old";
    place.textContent += " This page was built " + days + " days ago" + (late ? "; nothing on it counts as proved any more." : ".");
  }

  function filter() {
    const box = document.getElementById("figures");
    const rows = box ? [...box.querySelectorAll("tbody tr")] : [];
    if (rows.length < 8) { return; }
    const label = document.createElement("label");
    label.textContent = "Only figures that hold ";
    const input = made("input", "", label);
    input.type = "search";
    box.before(label);
    function apply() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = (row.textContent + " " + row.closest("table").caption.textContent).toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
      keep({ only: input.value });
    }
    input.value = asked().get("only") || "";
    input.addEventListener("input", apply);
    if (input.value) { apply(); }
  }

  // The corners of a path that our own pages write: M x y, then L x y of each other.
  function corners(path) {
    const pairs = (path.getAttribute("d") || "").match(/[ML]\d+ \d+/g) || [];
    return pairs.map((pair) => pair.slice(1).split(" ").map(Number));
  }

  function charts() {
    const box = document.querySelector(".curves");
    const plots = box ? [...box.querySelectorAll(".plot")] : [];
    if (!plots.length) { return; }
    const start = Date.parse(box.dataset.start);
    const unit = 60000; // milliseconds of a step of the time axis, which is a minute
    const whole = plots[0].viewBox.baseVal.width;
    if (whole < 4) { return; }
    const lines = plots.map((plot) => corners(plot.querySelector(".line")));
    const tall = plots[0].viewBox.baseVal.height;
    let from = 0, to = whole;

    const bar = document.createElement("div");
    bar.className = "tools";
    box.before(bar);
    for (const [text, action] of [
      ["Whole", () => show(0, whole)], ["Last quarter", () => show(whole * 0.75, whole)], ["Zoom in", () => zoom(0.5)],
      ["Zoom out", () => zoom(2)], ["Earlier", () => move(-0.5)], ["Later", () => move(0.5)],
    ]) {
      const button = made("button", text, bar);
      button.type = "button";
      button.addEventListener("click", action);
    }
    const read = made("span", "Drag over a chart to zoom.", bar);
    read.className = "read";

    const day = (x) => new Date(start + x * unit).toISOString().slice(0, 16) + "Z";
    function zoom(factor) { const half = (to - from) * factor / 2, middle = (from + to) / 2; show(middle - half, middle + half); }
    function move(share) { const by = (to - from) * share; show(from + by, to + by); }

    function show(low, high) {
      const width = Math.min(whole, Math.max(high - low, Math.min(4, whole)));
      from = Math.min(Math.max(0, low), whole - width);
      to = from + width;
      for (const plot of plots) {
        plot.setAttribute("viewBox", from + " 0 " + width + " " + tall);
        const chart = plot.parentNode;
        for (const text of chart.querySelectorAll(".number")) {
          text.setAttribute("x", (100 * (Number(text.dataset.x) - from) / width).toFixed(2) + "%");
        }
        const [first, last] = chart.querySelectorAll(".date");
        if (last) { first.textContent = day(from); last.textContent = day(to); }
      }
      const all = from === 0 && to === whole;
      keep({ from: all ? "" : day(from), to: all ? "" : day(to) });
    }

    function at(plot, event) {
      const box = plot.getBoundingClientRect();
      return from + (to - from) * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    }

    let began = null;
    for (const [number, plot] of plots.entries()) {
      const chart = plot.parentNode;
      const low = Number(plot.dataset.low), high = Number(plot.dataset.high);
      chart.addEventListener("pointermove", (event) => {
        const x = at(chart, event);
        const near = lines[number].reduce((best, one) => Math.abs(one[0] - x) < Math.abs(best[0] - x) ? one : best, lines[number][0]);
        if (near) { read.textContent = day(near[0]) + ": about " + (low + (high - low) * (1 - near[1] / tall)).toPrecision(4); }
      });
      chart.addEventListener("pointerdown", (event) => { began = event.pointerType === "mouse" ? at(chart, event) : null; });
      chart.addEventListener("pointerup", (event) => {
        const ended = at(chart, event);
        if (began !== null && Math.abs(ended - began) > (to - from) / 50) { show(Math.min(began, ended), Math.max(began, ended)); }
        began = null;
      });
      chart.addEventListener("dblclick", () => show(0, whole));
    }
    const given = ["from", "to"].map((name) => (Date.parse(asked().get(name)) - start) / unit);
    if (given.every(Number.isFinite)) { show(...given); }
  }

  age();
  filter();
  charts();
})();
