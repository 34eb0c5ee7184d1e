// What a page gains with scripts: a filter of series, and a word when the page is old.
"use strict";
(function () {
  const DAY = 86400000;

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
    const input = document.createElement("input");
    label.append(input);
    input.type = "search";
    box.before(label);
    function apply() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = (row.textContent + " " + row.closest("table").caption.textContent).toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    }
    input.addEventListener("input", apply);
  }

  age();
  filter();
})();
