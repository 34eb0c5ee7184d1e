// A page that nobody builds anew stays as it was: say so once its greens are older than they may be.
"use strict";
(function () {
  const DAY = 86400000;
  const place = document.getElementById("as-of");
  const days = place ? Math.floor((Date.now() - Date.parse(place.dataset.day)) / DAY) : 0;
  if (days < 2) { return; }
  const late = days > Number(place.dataset.days);
  place.className = "old";
  place.textContent += " This page was built " + days + " days ago" + (late ? "; nothing on it counts as proved any more." : ".");
})();
