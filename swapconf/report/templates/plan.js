"use strict";
(() => {
  // What a point of the picture means: its figures, and what a YAML says for it, below the picture.
  const sections = JSON.parse(document.getElementById("sections").textContent);
  const name = document.getElementById("section-name"), told = document.getElementById("section-told");
  const text = document.getElementById("section-text");
  const chart = document.getElementById("frontier");

  function choose(number) {
    const section = sections[number];
    name.textContent = section.name;
    told.textContent = section.told;
    text.textContent = section.text;
    document.documentElement.dataset.chosen = String(number);
  }

  chart.on("plotly_click", (event) => choose(event.points[0].customdata));
})();
