"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const strings = data.strings;
  const folded = [];
  const fold = (number) => (folded[number] ??= strings[number].toLowerCase());

  // The rank of a string among all in their order. It is cheaper to compare than the string.
  let ranks = null;
  const rank = (number) => {
    if (!ranks) {
      ranks = new Uint32Array(strings.length);
      Array.from(strings.keys()).sort((a, b) => (strings[a] < strings[b] ? -1 : strings[a] > strings[b] ? 1 : 0))
        .forEach((one, at) => { ranks[one] = at; });
    }
    return ranks[number];
  };

  // Creates an element with properties and children; strings become text, never markup.
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const scaled = (value, step, units, roundedMin) => {
    let unit = 0;
    while (value >= step - 0.5 && unit + 1 < units.length) { value /= step; unit += 1; }
    return value.toFixed(unit > 0 && value < roundedMin ? 1 : 0) + units[unit];
  };
  const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  const rowsShown = (part, all) => (part === all ? "" : `${count(part)} of `) + count(all) + (all === 1 ? " row" : " rows");
  const shown = {
    text: (value) => strings[value],
    count,
    bytes: (value) => scaled(value, 1024, ["", "K", "M", "G", "T", "P", "E"], 99.95),
    ns: (value) => (value === 0 ? "-" : scaled(value, 1000, ["ns", "µs", "ms", "s"], 99.95)),
  };
  const show = (value, unit) => (value === null ? "" : shown[unit](value));

  // Tables: only the rows in view are elements; spacers above and below have the height of the others.
  const ROW = 24, WIDTH_MAX = 100, FILTER_ROWS_MIN = 12;
  const table = (place, { columns, cells }) => {
    const length = cells.length ? cells[0].length : 0;
    let order = Array.from({ length }, (_, row) => row);
    const state = { column: -1, down: true, filter: "" };
    const widths = columns.map(([name, unit], column) => {
      let most = name.length + 2;
      for (const value of cells[column]) {
        most = Math.max(most, value === null ? 0 : unit === "text" ? strings[value].length : 8);
      }
      return Math.min(most, WIDTH_MAX) * 8 + 22;
    });
    const head = make("tr");
    columns.forEach(([name, unit], column) => {
      const button = make("button", { type: "button", onclick: () => sort(column) }, name);
      head.append(make("th", { className: unit === "text" ? "" : "n", scope: "col" }, button));
    });
    const body = make("tbody");
    const groups = make("colgroup");
    for (const width of widths) {
      const one = make("col");
      one.style.width = `${width}px`;
      groups.append(one);
    }
    const rows = make("div", { className: "rows", tabIndex: 0, onscroll: () => requestAnimationFrame(draw) },
      make("table", {}, groups, make("thead", {}, head), body));
    const number = make("span");
    const gap = (height) => {
      const cell = make("td", { colSpan: columns.length });
      cell.style.height = `${height}px`;
      return make("tr", { className: "gap" }, cell);
    };
    let drawn = "";
    const draw = () => {
      const first = Math.max(0, Math.floor(rows.scrollTop / ROW) - 10);
      const last = Math.min(order.length, first + Math.ceil((rows.clientHeight || 460) / ROW) + 20);
      const key = `${first} ${last} ${state.column} ${state.down} ${state.filter}`;
      if (key === drawn) { return; }
      drawn = key;
      const visible = order.slice(first, last).map((row) => make("tr", {}, ...columns.map(([, unit], column) => {
        const value = cells[column][row];
        const text = show(value, unit);
        const title = unit === "text" ? text : value === null ? "" : count(value) + (unit === "ns" ? " ns" : "");
        return make("td", { className: unit === "text" ? "" : "n", title }, text);
      })));
      body.replaceChildren(gap(first * ROW), ...visible, gap((order.length - last) * ROW));
      number.textContent = rowsShown(order.length, length);
    };
    const arrange = () => {
      const texts = columns.flatMap(([, unit], column) => (unit === "text" ? [cells[column]] : []));
      order = Array.from({ length }, (_, row) => row);
      if (state.filter) {
        order = order.filter((row) => texts.some((one) => one[row] !== null && fold(one[row]).includes(state.filter)));
      }
      if (state.column >= 0) {
        const values = cells[state.column], isText = columns[state.column][1] === "text";
        const sign = state.down ? -1 : 1;
        // Empty cells stay at the end.
        const keys = Float64Array.from(values, (value) => (value === null ? Infinity : sign * (isText ? rank(value) : value)));
        // Two empty cells have no difference: NaN, which counts as none.
        order.sort((a, b) => keys[a] - keys[b]);
      }
      rows.scrollTop = 0;
      draw();
    };
    const sort = (column) => {
      state.down = state.column === column ? !state.down : columns[column][1] !== "text";
      state.column = column;
      [...head.children].forEach((cell, at) => {
        cell.ariaSort = at !== column ? "none" : state.down ? "descending" : "ascending";
        cell.firstChild.textContent = columns[at][0] + (at !== column ? "" : state.down ? " ▾" : " ▴");
      });
      arrange();
    };
    const input = make("input", { type: "search", placeholder: "filter", ariaLabel: "filter the rows",
      oninput: () => { state.filter = input.value.toLowerCase(); arrange(); } });
    place.replaceChildren(...(length >= FILTER_ROWS_MIN ? [make("div", { className: "bar" }, input, number)] : []), rows);
    draw();
  };

  // Time-lines: one canvas as large as the view, drawn again when the view moves.
  const LINE = 18, AXIS = 26, HEIGHT_MAX = 560, ZOOM = 1.4;
  const timeline = (place, { title, categories, rows }) => {
    let end = 1, start = Infinity;
    for (const [, bars] of rows) {
      for (let at = 0; at < bars.length; at += 4) {
        end = Math.max(end, bars[at] + bars[at + 1]);
        start = Math.min(start, bars[at]);
      }
    }
    start = Math.min(start, end - 1);
    if (start < end / 2) { start = 0; }
    let [from, to] = [start, end];
    let order = rows.map((_, row) => row);
    const hidden = new Set();
    const canvas = make("canvas");
    const space = make("div");
    const tip = make("div", { className: "tip", hidden: true });
    const chart = make("div", { className: "chart", tabIndex: 0, role: "img", ariaLabel: title }, canvas, space);
    const number = make("span");
    const left = () => Math.min(420, chart.clientWidth * 0.35);
    const colour = (style, category) => style.getPropertyValue(`--c${Math.min(category, 8)}`).trim();
    const x = (time) => left() + (time - from) / (to - from) * (chart.clientWidth - left() - 8);
    const time = (at) => from + (at - left()) / (chart.clientWidth - left() - 8) * (to - from);
    const ticks = () => {
      const least = (to - from) / Math.max(2, (chart.clientWidth - left()) / 110);
      const power = 10 ** Math.floor(Math.log10(least));
      const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= least);
      const all = [];
      for (let at = Math.ceil(from / step) * step; at <= to; at += step) { all.push(at); }
      // As many decimals as the step needs, in the unit of the last tick.
      const [unit, name] = to >= 1e9 ? [1e9, "s"] : to >= 1e6 ? [1e6, "ms"] : to >= 1e3 ? [1e3, "µs"] : [1, "ns"];
      const decimals = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
      return all.map((at) => [at, `${(at / unit).toFixed(decimals)} ${name}`]);
    };
    const fitted = (context, text, width) => {
      if (context.measureText(text).width <= width) { return text; }
      let [low, high] = [0, text.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (context.measureText("…" + text.slice(middle)).width <= width) { high = middle; } else { low = middle + 1; }
      }
      return "…" + text.slice(low);
    };
    let isRequested = false;
    const request = () => {
      if (isRequested) { return; }
      isRequested = true;
      requestAnimationFrame(() => { isRequested = false; draw(); });
    };
    const draw = () => {
      const [width, height] = [chart.clientWidth, chart.clientHeight];
      const scale = window.devicePixelRatio || 1;
      canvas.width = width * scale;
      canvas.height = height * scale;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const style = getComputedStyle(document.documentElement);
      const [ink, muted, line, surface] = ["--ink", "--muted", "--line", "--surface"].map((name) => style.getPropertyValue(name));
      const context = canvas.getContext("2d");
      context.scale(scale, scale);
      context.fillStyle = surface;
      context.fillRect(0, 0, width, height);
      context.font = "12px ui-monospace, 'DejaVu Sans Mono', monospace";
      context.textBaseline = "middle";
      const all = ticks();
      context.fillStyle = line;
      for (const [at] of all) { context.fillRect(Math.round(x(at)), AXIS, 1, height); }
      const first = Math.floor(chart.scrollTop / LINE);
      for (let place = first; place < order.length; place += 1) {
        const y = AXIS + place * LINE - chart.scrollTop;
        if (y > height) { break; }
        const [label, bars] = rows[order[place]];
        context.fillStyle = ink;
        context.fillText(fitted(context, strings[label], left() - 16), 8, y + LINE / 2);
        context.save();
        context.beginPath();
        context.rect(left(), AXIS, width - left(), height);
        context.clip();
        for (let at = 0; at < bars.length; at += 4) {
          if (hidden.has(bars[at + 2]) || bars[at] > to || bars[at] + bars[at + 1] < from) { continue; }
          const begin = Math.max(x(bars[at]), left() - 2);
          const finish = Math.min(x(bars[at] + bars[at + 1]), width + 2);
          context.fillStyle = colour(style, bars[at + 2]);
          context.fillRect(begin, y + 3, Math.max(finish - begin, 1.5), LINE - 6);
        }
        context.restore();
      }
      context.fillStyle = surface;
      context.fillRect(0, 0, width, AXIS);
      context.fillStyle = line;
      context.fillRect(0, AXIS - 1, width, 1);
      context.fillStyle = muted;
      context.fillText(fitted(context, title, left() - 16), 8, AXIS / 2);
      for (const [at, text] of all) {
        const place = x(at) + 4;
        if (place + context.measureText(text).width < width) { context.fillText(text, place, AXIS / 2); }
      }
    };
    const view = (begin, finish) => {
      const length = Math.min(Math.max(finish - begin, 100), end - start);
      from = Math.min(Math.max(begin, start), end - length);
      to = from + length;
      tip.hidden = true;
      request();
    };
    const zoom = (factor, centre) => view(centre - (centre - from) / factor, centre + (to - centre) / factor);
    const move = (part) => view(from + (to - from) * part, to + (to - from) * part);
    const fit = () => {
      space.style.height = `${Math.max(0, order.length * LINE + AXIS + 6 - chartHeight())}px`;
      chart.style.height = `${chartHeight()}px`;
      number.textContent = rowsShown(order.length, rows.length);
      request();
    };
    const chartHeight = () => Math.min(HEIGHT_MAX, rows.length * LINE + AXIS + 6);
    chart.addEventListener("scroll", () => { tip.hidden = true; request(); });
    chart.addEventListener("wheel", (event) => {
      const at = event.clientX - chart.getBoundingClientRect().left;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM, time(Math.max(at, left())));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        move((event.deltaX || event.deltaY) / chart.clientWidth);
      }
    }, { passive: false });
    let dragged = null;
    chart.addEventListener("pointerdown", (event) => { dragged = [event.clientX, from, to]; });
    window.addEventListener("pointerup", () => { dragged = null; });
    chart.addEventListener("pointermove", (event) => {
      if (dragged) {
        const moved = (dragged[0] - event.clientX) / (chart.clientWidth - left()) * (dragged[2] - dragged[1]);
        view(dragged[1] + moved, dragged[2] + moved);
        return;
      }
      const frame = chart.getBoundingClientRect();
      const [atX, atY] = [event.clientX - frame.left, event.clientY - frame.top];
      const row = order[Math.floor((atY - AXIS + chart.scrollTop) / LINE)];
      if (row === undefined || atY < AXIS) { tip.hidden = true; return; }
      const [label, bars] = rows[row];
      let text = strings[label];
      for (let at = bars.length - 4; at >= 0 && atX > left(); at -= 4) {
        if (hidden.has(bars[at + 2])) { continue; }
        if (atX >= x(bars[at]) - 2 && atX <= Math.max(x(bars[at] + bars[at + 1]), x(bars[at]) + 1.5) + 2) {
          text += `\n${categories[bars[at + 2]]}: ${show(bars[at + 1], "ns")}, from ${show(bars[at], "ns")}`;
          text += strings[bars[at + 3]] ? `\n${strings[bars[at + 3]]}` : "";
          break;
        }
      }
      tip.textContent = text;
      tip.hidden = false;
      const top = chart.offsetTop + atY + 16;
      tip.style.left = `${Math.min(atX + 12, Math.max(0, chart.clientWidth - tip.offsetWidth - 8))}px`;
      tip.style.top = `${top}px`;
    });
    chart.addEventListener("pointerleave", () => { tip.hidden = true; });
    chart.addEventListener("dblclick", () => view(start, end));
    chart.addEventListener("keydown", (event) => {
      const middle = (from + to) / 2;
      const act = { "+": () => zoom(ZOOM, middle), "-": () => zoom(1 / ZOOM, middle), ArrowLeft: () => move(-0.2),
        ArrowRight: () => move(0.2), Home: () => view(start, end) }[event.key];
      if (act) { event.preventDefault(); act(); }
    });
    const input = make("input", { type: "search", placeholder: "filter", ariaLabel: "filter the rows", oninput: () => {
      const text = input.value.toLowerCase();
      order = rows.map((_, row) => row).filter((row) => fold(rows[row][0]).includes(text));
      chart.scrollTop = 0;
      fit();
    } });
    const button = (text, name, act) => make("button", { type: "button", ariaLabel: name, title: name, onclick: act }, text);
    const legend = make("ul", { className: "legend" }, ...categories.map((name, category) => {
      const one = make("button", { type: "button", ariaPressed: "true", onclick: () => {
        hidden.has(category) ? hidden.delete(category) : hidden.add(category);
        one.ariaPressed = String(!hidden.has(category));
        request();
      } }, make("i", { className: `c${Math.min(category, 8)}` }), name);
      return make("li", {}, one);
    }));
    const bar = make("div", { className: "bar" }, ...(rows.length >= FILTER_ROWS_MIN ? [input] : []),
      button("+", "zoom in", () => zoom(ZOOM, (from + to) / 2)), button("−", "zoom out", () => zoom(1 / ZOOM, (from + to) / 2)),
      button("all", "show the whole time", () => view(start, end)), number,
      make("span", {}, "drag or ← → to move, Ctrl and the wheel or + − to zoom"));
    place.replaceChildren(legend, bar, chart, tip);
    new ResizeObserver(request).observe(chart);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", request);
    fit();
  };

  document.querySelectorAll("[data-table]").forEach((place) => table(place, data.tables[place.dataset.table]));
  document.querySelectorAll("[data-timeline]").forEach((place) => timeline(place, data.timelines[place.dataset.timeline]));
})();
