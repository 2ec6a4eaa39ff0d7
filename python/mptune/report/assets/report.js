// Draws the charts of the page, moves the sliders through choices and times, and lets legends highlight what they name.
// Colours are CSS variables, so light, dark and print need no redrawing. It sends no request.
"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = read("charts");
  const choices = read("choices");
  const views = {};

  const tell = (section, signal, value) => {
    for (const [id, view] of Object.entries(views)) {
      const knows = charts[id].params.some((one) => one.name === signal);
      if (knows && (!section || id.replace(/-\d+$/, "") === section)) view.signal(signal, value).runAsync();
    }
  };

  const slider = document.getElementById("sacrifice");
  if (slider) {
    const place = (id) => document.getElementById(id);
    const back = place("back");
    const choose = () => {
      const index = Number(slider.value);
      const choice = choices[index];
      const recommended = index === Number(slider.dataset.answer);
      [...place("sentence").children].forEach((one, i) => one.classList.toggle("other", i !== index));
      place("prediction").textContent = choice.prediction || "";
      place("prediction").hidden = recommended;
      place("evidence").hidden = !recommended;
      // It keeps its room, so that nothing above the slider moves.
      place("gains").style.visibility = recommended ? "" : "hidden";
      place("given-up").textContent = choice.sacrifice;
      slider.setAttribute("aria-valuetext", choice.sacrifice);
      back.hidden = recommended;
      tell("", "choice", index);
    };
    slider.addEventListener("input", choose);
    back.addEventListener("click", () => {
      slider.value = slider.dataset.answer;
      choose();
      slider.focus();
    });
    slider.value = slider.dataset.answer; // otherwise a reloaded page keeps the last position
    choose();
  }

  // What is shown of a time was worked out before; here it only takes the place of what is there.
  const change = (place, [words, width, dashed]) => {
    place.lastElementChild.textContent = place.dataset.before + words;
    for (const line of place.querySelectorAll("path, rect")) {
      if (line.localName === "path") line.setAttribute("stroke-width", width);
      line.setAttribute("stroke-dasharray", dashed ? "5 4" : "none");
    }
  };
  const show = (section, time) => {
    for (const drawing of document.querySelectorAll(`#${section} .drawing svg`)) {
      drawing.querySelectorAll("[data-before]").forEach((place, i) => change(place, time.shown[i]));
      drawing.querySelector("title").textContent = `${time.when}. ${time.told}`;
    }
  };
  const times = read("times");
  for (const slider of document.querySelectorAll(".times input")) {
    const mine = times[slider.dataset.section];
    const choose = (index) => {
      show(slider.dataset.section, mine[index]);
      slider.parentElement.querySelector("output").textContent = mine[index].when;
      slider.setAttribute("aria-valuetext", `${mine[index].when}. ${mine[index].told}`);
    };
    slider.addEventListener("input", () => choose(Number(slider.value)));
    window.addEventListener("beforeprint", () => choose(0));
    window.addEventListener("afterprint", () => choose(Number(slider.value)));
    slider.value = 0; // otherwise a reloaded page keeps the last position
    slider.parentElement.hidden = false;
    choose(0);
  }

  const all = document.getElementById("print-all");
  if (all) {
    const choose = () => document.body.classList.toggle("whole", all.checked);
    all.addEventListener("change", choose);
    choose();
  }

  for (const legend of document.querySelectorAll(".legend")) {
    const buttons = [...legend.querySelectorAll("button")];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
        const pressed = buttons.filter((one) => one.getAttribute("aria-pressed") === "true");
        tell(legend.dataset.section, "emphasis", pressed.map((one) => one.dataset.name));
      });
    }
  }

  const draw = async () => {
    for (const [id, spec] of Object.entries(charts)) {
      const place = document.getElementById(id);
      const options = { renderer: "svg", actions: false, ast: false };
      views[id] = (await vegaEmbed(place, spec, options)).view;
      place.querySelector("svg").setAttribute("aria-hidden", "true");
    }
    document.body.dataset.drawn = "yes";
  };
  draw();
})();
