"use strict";
(() => {
  const {themed, colour, config, dark} = window.swapconf;
  const timelines = JSON.parse(document.getElementById("timelines").textContent);
  const ROW = 26, MEMORY = 190, TOP = 26, BOTTOM = 46, GAP = 28;
  const left = (figure) => (figure.ranks.length === 1 ? 118 : 190);
  const said = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const micros = (value) => `${value.toLocaleString("en", {maximumFractionDigits: 3})} µs`;

  // What is drawn of intervals between two times: neighbours thinner than a pixel, with less than a pixel between them,
  // are one; what is wider stays by itself. `same` tells whether two may be.
  function merged(lane, from, to, pixel, same = () => true) {
    const bars = [];
    for (let index = 0; index < lane.start.length; index += 1) {
      if (lane.end[index] < from || lane.start[index] > to) continue;
      const last = bars[bars.length - 1], start = lane.start[index], end = lane.end[index];
      const thin = last && end - start < pixel && (last.count > 1 || last.busy < pixel);
      if (thin && start - last.end < pixel && same(last.first, index)) {
        last.end = Math.max(last.end, end);
        last.busy += end - start;
        last.count += 1;
        if (end - start > lane.end[last.longest] - lane.start[last.longest]) last.longest = index;
      } else {
        bars.push({start, end, busy: end - start, count: 1, first: index, longest: index});
      }
    }
    return bars;
  }

  function kernel(rank, name) {
    const scope = rank.scopes[rank.scope[name]];
    return `<b>${rank.leaves[name]}</b><br>${scope.where}<br>${scope.cells}`;
  }

  function add(trace, bar, row, text) {
    trace.base.push(bar.start);
    trace.x.push(bar.end - bar.start);
    trace.y.push(row);
    trace.hovertext.push(text);
  }

  const bars = (name, fill, hatched) => ({
    type: "bar", orientation: "h", name, base: [], x: [], y: [], hovertext: [], textposition: "none", width: 0.82,
    hovertemplate: "%{hovertext}<extra></extra>",
    marker: hatched ? {color: colour("--paper"), line: {width: 1, color: fill},
                       pattern: {shape: "/", size: 6, solidity: 0.35, fgcolor: fill, bgcolor: colour("--paper")}}
      : {color: fill, line: {width: 0}},
  });

  function busy(figure, rank, row, lane, from, to, pixel, trace) {
    const kind = figure.kinds[lane.kind].name, {words} = figure;
    for (const bar of merged(lane, from, to, pixel)) {
      const name = lane.name[bar.longest], exposed = lane.exposed[bar.longest];
      const waits = exposed > 0 ? `<br>${said(words.waits, {time: micros(exposed)})}` : "";
      const start = micros(bar.start), time = micros(bar.busy);
      const text = bar.count === 1
        ? `${kernel(rank, name)}<br>${said(words.kernel, {kind, time, start})}${waits}`
        : said(words.kernels, {number: bar.count, kind, busy: time, span: micros(bar.end - bar.start), start,
                               longest: rank.leaves[name], where: rank.scopes[rank.scope[name]].where});
      add(trace, bar, row, text);
    }
  }

  // Why computing stands still, on the lane of computing.
  function idle(figure, rank, row, from, to, pixel, stalls, bubbles) {
    const {stalls: held} = rank, {words} = figure, same = (one, other) => held.kind[one] === held.kind[other];
    for (const bar of merged(held, from, to, pixel, same)) {
      const why = said(bar.count > 1 ? words.stalls : words.stall, {time: micros(bar.busy), number: bar.count - 1});
      add(stalls[held.kind[bar.first]], bar, row, `${why}<br>${kernel(rank, held.name[bar.longest])}`);
    }
    for (const bar of merged(rank.bubbles, from, to, pixel)) {
      add(bubbles, bar, row,
          said(words.bubble, {rank: rank.title, time: micros(bar.busy), start: micros(bar.start)}));
    }
  }

  // A step curve with the first, lowest and highest value of each pixel.
  function thinned(memory, from, to, pixel) {
    const x = [], y = [];
    let cell = null, low = 0, high = 0;
    const put = (index) => { x.push(memory.time[index]); y.push(memory.used[index]); };
    const flush = () => { for (const index of [...new Set([low, high])].sort((a, b) => a - b)) put(index); };
    for (let index = 0; index < memory.time.length; index += 1) {
      const next = memory.time[index + 1];
      if ((next !== undefined && next < from) || memory.time[index] > to) continue;
      const here = Math.floor(memory.time[index] / pixel);
      if (here !== cell) {
        if (cell !== null) { flush(); put(index - 1); }
        cell = here;
        low = high = index;
      }
      if (memory.used[index] < memory.used[low]) low = index;
      if (memory.used[index] > memory.used[high]) high = index;
    }
    if (cell !== null) flush();
    // the last value holds until the next one, or the end of what is shown
    const rest = memory.time.findIndex((time) => time > to);
    if (rest > 0) { x.push(to); y.push(memory.used[rest - 1]); }
    return {x, y};
  }

  function drawn(figure, from, to, width) {
    const pixel = (to - from) / Math.max(width, 200);
    const runs = figure.kinds.map((kind) => bars(kind.name, kind.colour, false));
    const stalls = figure.kinds.map((kind) => bars(`waits for ${kind.name}`, kind.colour, true));
    const bubbles = bars("bubble", figure.bubble, true);
    const lines = [];
    let row = 0;
    for (const rank of figure.ranks) {
      idle(figure, rank, row, from, to, pixel, stalls, bubbles);
      for (const lane of rank.lanes) {
        busy(figure, rank, row, lane, from, to, pixel, runs[lane.kind]);
        row += 1;
      }
      const curve = thinned(rank.memory, from, to, pixel);
      lines.push({
        type: "scatter", mode: "lines", name: rank.title, ...curve, yaxis: "y2",
        line: {shape: "hv", width: 1.3, color: rank.colour},
        fill: figure.ranks.length === 1 ? "tozeroy" : "none", fillcolor: `${rank.colour}33`,
        hovertemplate: `${said(figure.words.memory, {
          rank: rank.title, size: `%{y:,.2f} ${figure.unit}`, time: "%{x:,.1f} µs"})}<extra></extra>`,
      });
    }
    return [...runs, ...stalls, bubbles, ...lines];
  }

  function rows(figure) {
    const labels = [], borders = [];
    for (const rank of figure.ranks) {
      if (labels.length) borders.push(labels.length - 0.5);
      rank.lanes.forEach((lane, index) => labels.push(
        index || figure.ranks.length === 1 ? figure.kinds[lane.kind].name
          : `<b>${rank.title}</b>  ${figure.kinds[lane.kind].name}`));
    }
    return {labels, borders};
  }

  function layout(figure, range) {
    const {labels, borders} = rows(figure);
    const gantt = labels.length * ROW, height = gantt + GAP + MEMORY, split = MEMORY / height;
    return themed({
      height: height + TOP + BOTTOM, margin: {l: left(figure), r: 16, t: TOP, b: BOTTOM}, barmode: "overlay", bargap: 0,
      showlegend: false, hovermode: "closest", dragmode: "zoom", hoverlabel: {align: "left", namelength: -1},
      xaxis: {title: {text: figure.words.clock, standoff: 6}, range, zeroline: false, tickformat: ",~r", anchor: "y2"},
      yaxis: {domain: [split + GAP / height, 1], range: [labels.length - 0.5, -0.5], fixedrange: true, zeroline: false,
              showgrid: false, tickvals: labels.map((_, index) => index), ticktext: labels},
      yaxis2: {domain: [0, split], range: [0, figure.top * 1.08], fixedrange: true, zeroline: false,
               ticksuffix: ` ${figure.unit}`, nticks: 5},
      shapes: borders.map((border) => ({type: "line", xref: "paper", x0: 0, x1: 1, y0: border, y1: border,
                                        line: {width: 1}})),
      annotations: [{xref: "paper", x: 0, yref: "paper", y: split, xanchor: "left", yanchor: "bottom", showarrow: false,
                     text: figure.words.used}],
    });
  }

  const whole = (figure) => [0, figure.longest || 1];
  const width = (chart, figure) => chart.clientWidth - left(figure) - 16;

  function draw(figure, range) {
    const chart = document.getElementById(figure.place);
    const next = layout(figure, range);
    next.yaxis2 = {...next.yaxis2, gridcolor: colour("--line"), linecolor: colour("--line")};
    return Plotly.react(chart, drawn(figure, range[0], range[1], width(chart, figure)), next, config);
  }

  // All timelines show the same time; what a reader of one zooms into is drawn anew in all.
  let shown = timelines.length ? whole(timelines[0]) : [0, 1];
  function zoom(change) {
    const asked = change["xaxis.range"] || [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (change["xaxis.autorange"]) shown = whole(timelines[0]);
    else if (asked[0] !== undefined) shown = [Math.max(asked[0], 0), Math.min(asked[1], timelines[0].longest)];
    else return;
    Promise.all(timelines.map((figure) => draw(figure, shown)));
  }

  Promise.all(timelines.map((figure) => draw(figure, shown))).then((charts) => {
    for (const chart of charts) chart.on("plotly_relayout", zoom);
    document.documentElement.dataset.timelines = String(charts.length);
  });
  dark.addEventListener("change", () => timelines.map((figure) => draw(figure, shown)));
})();
