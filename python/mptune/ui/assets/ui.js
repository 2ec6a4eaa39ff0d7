// Asks for the parts of the page again and puts in place what has changed. What is chosen stays chosen.
"use strict";
(() => {
  const main = document.querySelector("main[data-parts]");
  const fresh = document.getElementById("fresh");
  const shown = {};
  const EVERY_MS = 2000;

  const chosen = (place) => [...place.querySelectorAll("input:checked")].map((one) => one.value);

  const replace = (place, text) => {
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    const key = focused && (focused.value || focused.getAttribute("href"));
    const boxes = new Set(chosen(place));
    const scrolled = [...place.querySelectorAll(".table")].map((one) => [one.scrollLeft, one.scrollTop]);
    place.innerHTML = text; // escaped where it was made; the policy of the page lets no script in it run
    for (const one of place.querySelectorAll("input")) one.checked = boxes.has(one.value);
    [...place.querySelectorAll(".table")].forEach((one, i) => one.scrollTo(...(scrolled[i] || [0, 0])));
    if (focused) {
      const same = [...place.querySelectorAll(focused.tagName)];
      (same.find((one) => (one.value || one.getAttribute("href")) === key) || same[0])?.focus();
    }
  };

  const look = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(main.dataset.parts, { cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
        for (const [id, text] of Object.entries(await answer.json())) {
          if (shown[id] !== text) replace(document.getElementById(id), text);
          shown[id] = text;
        }
        fresh.textContent = "";
      } catch {
        fresh.textContent = "mptune ui does not answer any more; this is what was known last.";
      }
    }
    main.dataset.looks = String(Number(main.dataset.looks || 0) + 1);
    setTimeout(look, EVERY_MS);
  };
  look();
})();
