"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  // Named one by one, because some versions of plotly.js have buttons that send the chart to a server.
  const buttons = [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]];
  // What plotly.js itself says, where the page is not in its English.
  const words = document.body.dataset.plotly, lang = document.documentElement.lang;
  const spoken = words ? {locale: lang, locales: {[lang]: {dictionary: JSON.parse(words)}}} : {};
  const config = {responsive: true, displaylogo: false, modeBarButtons: buttons, plotlyServerURL: "", ...spoken};
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function themed(layout) {
    const ink = colour("--ink"), grid = colour("--line"), paper = colour("--paper");
    const axis = {gridcolor: grid, linecolor: grid, tickcolor: grid};
    const axes = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
    return {
      ...layout, paper_bgcolor: paper, plot_bgcolor: paper,
      font: {color: ink, family: "system-ui, sans-serif", size: 12},
      ...Object.fromEntries(axes.map((name) => [name, {...layout[name], ...axis}])),
      hoverlabel: {...layout.hoverlabel, bgcolor: paper, bordercolor: grid, font: {color: ink}},
      shapes: layout.shapes.map((shape) => ({...shape, line: {...shape.line, color: colour("--soft")}})),
      annotations: (layout.annotations || []).map((note) => ({...note, arrowcolor: ink, bgcolor: paper})),
    };
  }

  for (const figure of figures) {
    for (const trace of figure.data) {
      if (trace.type === "bar") trace.hovertext = trace.hovertext.map((index) => figure.names[index]);
      if (trace.meta === "ink") trace.line.color = colour("--ink");
    }
  }

  // The two charts of a trace show the same time.
  function link(source, target) {
    source.on("plotly_relayout", (change) => {
      const range = [source.layout.xaxis.range[0], source.layout.xaxis.range[1]];
      const other = target.layout.xaxis.range;
      if (!("xaxis.range[0]" in change || "xaxis.range" in change || "xaxis.autorange" in change)) return;
      if (other[0] === range[0] && other[1] === range[1]) return;
      Plotly.relayout(target, {"xaxis.range": range});
    });
  }

  window.swapconf = {themed, colour, config, dark};
  const draw = (figure) => Plotly.newPlot(figure.place, figure.data, themed(figure.layout), config);
  Promise.all(figures.map(draw)).then((charts) => {
    for (let index = 0; index + 1 < charts.length; index += 2) {  // the chart of a sweep is the last, and alone
      link(charts[index], charts[index + 1]);
      link(charts[index + 1], charts[index]);
    }
    document.documentElement.dataset.drawn = String(charts.length);
  });

  dark.addEventListener("change", () => {
    for (const figure of figures) {
      const chart = document.getElementById(figure.place);
      const current = {...figure.layout, xaxis: {...figure.layout.xaxis, range: [...chart.layout.xaxis.range]},
                       yaxis: {...figure.layout.yaxis, range: [...chart.layout.yaxis.range]}};
      for (const trace of figure.data) if (trace.meta === "ink") trace.line.color = colour("--ink");
      Plotly.react(chart, figure.data, themed(current), config);
    }
  });
})();
