// Draws the charts of the page in its colours and lets the slider choose a sacrifice. No request leaves.
"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = read("charts");
  const front = read("front");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const views = {};

  const look = (night) => {
    const ink = night ? "#e8eaed" : "#1c2024";
    const grid = night ? "#333b44" : "#e3e7eb";
    const text = { labelColor: ink, titleColor: ink };
    return {
      background: null,
      view: { stroke: null },
      axis: { ...text, gridColor: grid, domainColor: ink, tickColor: ink, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" },
      legend: { ...text, labelFontSize: 12, titleFontSize: 12, symbolSize: 90 },
      rule: { color: ink },
      line: { color: ink },
      point: { color: ink },
      font: "system-ui, sans-serif",
    };
  };

  const draw = async (night) => {
    for (const [id, spec] of Object.entries(charts)) {
      const place = document.getElementById("chart-" + id);
      const config = { ...(spec.config || {}), ...look(night) };
      const options = { renderer: "svg", actions: false, config };
      views[id] = (await vegaEmbed(place, spec, options)).view;
      place.querySelector("svg")?.setAttribute("aria-hidden", "true");
    }
    choose();
    document.body.dataset.drawn = "yes";
  };

  const number = (value) => Number(value.toPrecision(4)).toString();
  const slider = document.getElementById("sacrifice");
  const choose = () => {
    if (!slider) return;
    const row = front[Number(slider.value)];
    const percent = Number((100 * row.sacrifice).toPrecision(3)) + " %";
    const low = row.throughput_mbps_low, high = row.throughput_mbps_high;
    const between = low === null ? "" : ` (${number(low)} to ${number(high)})`;
    const text = `Giving up ${percent}: ${row.pm} with ${row.cc} and ${row.buffer_mib.toFixed(2)} MiB ` +
      `for ${number(row.throughput_mbps)} Mbit/s${between}, as the model predicts.`;
    document.getElementById("choice").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    const view = views["trade-off"];
    if (view) view.signal("sacrifice", row.sacrifice).runAsync();
  };
  if (slider) slider.addEventListener("input", choose);

  dark.addEventListener("change", (event) => draw(event.matches));
  window.addEventListener("beforeprint", () => draw(false));
  window.addEventListener("afterprint", () => draw(dark.matches));
  draw(dark.matches);
})();
