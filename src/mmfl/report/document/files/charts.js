"use strict";
const charts = (() => {
  const root = document.documentElement;
  let content = {};
  const looks = 6;
  const hidden = {};  // by group, the numbers of the lines that are switched off
  const shown = [];  // charts that are drawn: {figure, plot, group}
  const empty = [];  // figures without a round yet

  const at = (path) => path.split(".").reduce((value, key) => value[key], content);
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const lineColour = (number) => colour(`--line-${number % looks}`);
  const dash = (number) => [[], [7, 4], [2, 3]][Math.floor(number / looks) % 3];
  const hex = (text, alpha) => text + Math.round(alpha * 255).toString(16).padStart(2, "0");

  const decimals = { share: 3, variance: 4, seconds: 2 };
  function format(value, style) {
    if (value === null || value === undefined) return "-";
    const text = value.toFixed(decimals[style] ?? 3);
    return style === "seconds" ? `${text} s` : text.replace(/^(-?)0\./, "$1.");
  }

  function tooltip(figure, names, style) {
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    return {
      hooks: {
        init: (plot) => plot.over.append(tip),
        setCursor: (plot) => {
          const index = plot.cursor.idx;
          if (index === null || index === undefined || plot.cursor.left < 0) {
            tip.hidden = true;
            return;
          }
          tip.replaceChildren();
          const head = document.createElement("b");
          head.textContent = `round ${plot.data[0][index]}`;
          tip.append(head);
          names.forEach((name, number) => {
            const series = plot.series[1 + 3 * number];
            if (!series.show) return;
            const row = document.createElement("div");
            const mark = document.createElement("span");
            mark.textContent = "■ ";
            mark.style.color = lineColour(number);
            row.append(mark, `${name} ${format(plot.data[1 + 3 * number][index], style)}`);
            tip.append(row);
          });
          tip.hidden = false;
          const left = plot.cursor.left;
          const wide = plot.over.clientWidth;
          tip.style.top = "4px";
          tip.style.left = left < wide / 2 ? `${left + 12}px` : "";
          tip.style.right = left < wide / 2 ? "" : `${wide - left + 12}px`;
        },
      },
    };
  }

  function read(figure) {
    const rounds = at(figure.dataset.rounds);
    const lines = JSON.parse(figure.dataset.lines).map(at);
    return { rounds, lines: lines.map((line) => (Array.isArray(line) ? { mean: line } : line)) };
  }

  function columns({ rounds, lines }) {
    return [rounds, ...lines.flatMap(({ mean, low, high }) => [mean, low ?? mean, high ?? mean])];
  }

  function draw(figure) {
    const box = figure.querySelector(".plot");
    const group = figure.closest("[data-group]").dataset.group;
    const { rounds, lines } = read(figure);
    const names = JSON.parse(figure.dataset.names);
    const style = figure.dataset.style;
    const off = hidden[group] ?? new Set();
    const pale = figure.classList.contains("crowded") ? 0.07 : 0.16;
    const few = rounds.length < 3;
    const series = [{}];
    const bands = [];
    lines.forEach((values, number) => {
      const stroke = lineColour(number);
      const show = !off.has(number);
      series.push({ show, stroke, width: 2, dash: dash(number), points: { show: few, size: 7, fill: stroke } });
      series.push({ show, width: 0, points: { show: false } }, { show, width: 0, points: { show: false } });
      if (values.low) bands.push({ series: [3 + 3 * number, 2 + 3 * number], fill: hex(stroke, pale) });
    });
    const quiet = colour("--quiet");
    const grid = { stroke: colour("--rule"), width: 1 };
    const font = "12px system-ui, sans-serif";
    const plot = new uPlot({
      width: box.clientWidth,
      height: figure.closest(".wide") ? 340 : 230,
      legend: { show: false },
      cursor: { y: false, sync: { key: group, setSeries: false }, points: { show: false }, focus: { prox: -1 }, drag: { x: true, y: false } },
      scales: { x: { time: false } },
      axes: [
        { stroke: quiet, font, grid: { show: false }, ticks: { show: false }, size: 30, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000] },
        { stroke: quiet, font, grid, ticks: { show: false }, size: 52, values: (_, ticks) => ticks.map((tick) => String(Number(tick.toPrecision(6)))) },
      ],
      series, bands, plugins: [tooltip(figure, names, style)],
    }, columns({ rounds, lines }), box);
    box.classList.add("drawn");
    return { figure, plot, group, box, few };
  }

  function redraw(some = shown) {
    for (const chart of some) {
      chart.plot.destroy();
      Object.assign(chart, draw(chart.figure));
    }
  }

  function show(figure) {
    if (at(figure.dataset.rounds).length) shown.push(draw(figure));
    else empty.push(figure);
  }

  function update(given) {
    content = given;
    empty.splice(0).forEach(show);
    for (const chart of shown) {
      const found = read(chart.figure);
      if (chart.few !== found.rounds.length < 3) {
        redraw([chart]);
        continue;
      }
      const { min, max } = chart.plot.scales.x;
      const before = chart.plot.data[0];
      const whole = min <= before[0] && max >= before[before.length - 1];
      chart.plot.setData(columns(found), whole);
      if (!whole) chart.plot.setScale("x", { min, max });
    }
  }

  function toggle(button, group) {
    const number = Number(button.dataset.line);
    const off = hidden[group] ??= new Set();
    off.has(number) ? off.delete(number) : off.add(number);
    for (const twin of document.querySelectorAll(".toggles")) {
      if (twin.dataset.group !== group) continue;
      for (const one of twin.querySelectorAll("button")) {
        one.setAttribute("aria-pressed", String(!off.has(Number(one.dataset.line))));
      }
    }
    for (const chart of shown.filter((one) => one.group === group)) {
      for (const part of [1, 2, 3]) chart.plot.setSeries(part + 3 * number, { show: !off.has(number) });
    }
  }

  function watchMap(figure) {
    const map = at(figure.dataset.map);
    const image = figure.querySelector("img");
    const said = figure.querySelector(".said");
    const chapter = at(figure.dataset.map.split(".").slice(0, 2).join("."));
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth;
    canvas.height = image.naturalHeight;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    const legend = {};
    map.colours.forEach((one, number) => {
      legend[one.toLowerCase()] ??= number < chapter.tasks.length ? chapter.tasks[number].name
        : number === map.colours.length - 2 ? "several tasks" : "a failed turn";
    });
    image.addEventListener("pointermove", (event) => {
      const box = image.getBoundingClientRect();
      const column = Math.min(Math.floor((event.clientX - box.left) / box.width * canvas.width), canvas.width - 1);
      const row = Math.min(Math.floor((event.clientY - box.top) / box.height * canvas.height), canvas.height - 1);
      if (column < 0 || row < 0) return;
      const [red, green, blue, alpha] = context.getImageData(column, row, 1, 1).data;
      const code = `#${[red, green, blue].map((part) => part.toString(16).padStart(2, "0")).join("")}`;
      const what = alpha ? legend[code] ?? "" : "no turn";
      said.textContent = `client ${map.clients[row]}, round ${column * map.step + 1}: ${what}`;
    });
    image.addEventListener("pointerleave", () => { said.textContent = ""; });
  }

  function start(given) {
    content = given;
    root.classList.add("js");
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        seen.unobserve(entry.target);
        show(entry.target);
      }
    }, { rootMargin: "400px" });
    document.querySelectorAll("figure.chart").forEach((figure) => seen.observe(figure));
    document.querySelectorAll(".toggles").forEach((bar) => {
      bar.querySelectorAll("button").forEach((button) => {
        button.addEventListener("click", () => toggle(button, bar.dataset.group));
      });
    });
    document.querySelectorAll("figure.map").forEach((figure) => {
      const image = figure.querySelector("img");
      image.decode().then(() => watchMap(figure));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
    let waiting = 0;
    addEventListener("resize", () => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => {
        for (const { plot, box } of shown) plot.setSize({ width: box.clientWidth, height: plot.height });
      });
    });
  }

  return { start, update };
})();
