"use strict";
(() => {
  const items = [...document.querySelectorAll("#items > article")];
  const byId = new Map(items.map((item) => [item.id, item]));
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const branch = document.getElementById("branch");
  const folds = [...document.querySelectorAll("#items details")];
  const atFirst = folds.map((fold) => fold.open);

  const onPath = () => {
    if (!branch || !branch.value) return null;
    const path = new Set();
    for (let at = branch.value; at && byId.has(at); at = byId.get(at).dataset.parent) path.add(at);
    return path;
  };

  const show = () => {
    const path = onPath();
    const words = search.value.trim().toLowerCase();
    let count = 0;
    for (const item of items) {
      const hit = words !== "" && item.textContent.toLowerCase().includes(words);
      if (hit) count += 1;
      item.hidden = (path !== null && !path.has(item.id)) || (words !== "" && !hit);
    }
    folds.forEach((fold, i) => {
      const hit = words !== "" && fold.textContent.toLowerCase().includes(words);
      fold.classList.toggle("hit", hit);
      fold.open = words === "" ? atFirst[i] : hit;
    });
    found.textContent = words === "" ? "" : `${count} of ${items.length}`;
  };

  const fold = (open) => folds.forEach((one) => { one.open = open; });
  search.addEventListener("input", show);
  if (branch) branch.addEventListener("change", show);
  document.getElementById("open").addEventListener("click", () => fold(true));
  document.getElementById("close").addEventListener("click", () => fold(false));
  search.value = new URLSearchParams(location.hash.slice(1)).get("search") || "";
  document.querySelector(".tools").hidden = false;
  show();
})();
