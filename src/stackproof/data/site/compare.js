// Any two records side by side. Each is a data file of one call; the arithmetic is that of `site/compare_records.py`.
"use strict";
(function () {
  const GROUPS = ["driver", "toolkit", "wheels", "settings", "code", "host", "place", ""];
  const known = new Map();
  const chooser = document.getElementById("chooser");
  const result = document.getElementById("result");
  const [before, after] = ["a", "b"].map((name) => document.getElementById(name));
  const rates = JSON.parse(chooser.dataset.rates);

  window.stackproofData = (record) => { known.set(record.id, record); show(); };

  function load(id) {
    if (known.has(id) || !/^[\w-]+$/.test(id)) { return; }
    known.set(id, null);
    const script = document.createElement("script");
    script.src = "data/" + id + ".js";
    script.onerror = () => { result.textContent = "There is no record " + id + " on this site any more."; };
    document.head.append(script);
  }

  function ratio(one, other, least) {
    const middle = Math.log(other[1] / one[1]);
    const half = Math.hypot(Math.log(one[3] / one[2]) / 2, Math.log(other[3] / other[2]) / 2);
    return { ratio: Math.exp(middle), low: Math.exp(middle - half), high: Math.exp(middle + half),
             factor: Math.abs(middle) > half ? Math.abs(middle) / least : 0 };
  }

  function figure(one) {
    const rate = rates[one[0]];
    return rate ? (1 / one[1]).toPrecision(4) + " " + rate : one[1].toPrecision(4) + " " + one[0];
  }

  function table(title, heads, rows) {
    result.append(Object.assign(document.createElement("h2"), { textContent: title }));
    if (!rows.length) { result.append(Object.assign(document.createElement("p"), { textContent: "Nothing." })); return; }
    const wide = Object.assign(document.createElement("div"), { className: "wide", tabIndex: 0 });
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", title);
    const inner = document.createElement("table");
    wide.append(inner);
    const head = inner.createTHead().insertRow();
    for (const word of heads) { head.append(Object.assign(document.createElement("th"), { textContent: word, scope: "col" })); }
    const body = inner.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((cell, at) => line.append(Object.assign(document.createElement(at ? "td" : "th"), { textContent: cell })));
      line.cells[0].scope = "row";
    }
    result.append(wide);
  }

  function facts(one, other) {
    const names = [...new Set([...Object.keys(one), ...Object.keys(other)])].sort();
    const value = (side, name) => name in side ? side[name][1] : "absent";
    const group = (name) => (one[name] || other[name])[0];
    const rows = names.filter((name) => value(one, name) !== value(other, name))
      .map((name) => [name, group(name) || "not compared", value(one, name), value(other, name)]);
    const rank = (row) => GROUPS.indexOf(group(row[0]));
    return rows.sort((left, right) => rank(left) - rank(right));
  }

  function show() {
    const [one, other] = [before.value, after.value].map((id) => known.get(id));
    if (!one || !other) { return; }
    result.textContent = "";
    table("What differs", ["fact", "group", "before", "after"], facts(one.facts, other.facts));
    const least = Math.log1p(Math.max(one.effect, other.effect));
    const rows = Object.keys(one.figures).filter((name) => name in other.figures)
      .map((name) => [name, ratio(one.figures[name], other.figures[name], least)])
      .sort((left, right) => right[1].factor - left[1].factor || (left[0] < right[0] ? -1 : 1));
    table("Figures", ["figure", "before", "after", "seconds, after over before", "factor"], rows.map(([name, found]) => [
      name, figure(one.figures[name]), figure(other.figures[name]),
      found.ratio.toFixed(4) + " [" + found.low.toFixed(4) + ", " + found.high.toFixed(4) + "]",
      found.factor ? found.factor.toFixed(1) + (found.ratio > 1 ? " slower" : " faster") : "within noise",
    ]));
  }

  function choose() {
    history.replaceState(null, "", "#a=" + before.value + "&b=" + after.value);
    load(before.value);
    load(after.value);
    show();
  }

  function start() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (!before.options.length) { return; }
    chooser.hidden = false;
    before.value = asked.get("a") || before.options[Math.min(1, before.options.length - 1)].value;
    after.value = asked.get("b") || after.options[0].value;
    for (const side of [before, after]) { side.addEventListener("change", choose); }
    if (asked.has("a")) { choose(); }
  }
  start();
})();
