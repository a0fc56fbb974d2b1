// Line plots over time, drawn as SVG: no library, and nothing but text goes in as text.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 52, right: 10, top: 16, bottom: 22 };
const HEIGHT = 190;

function svg(kind, attributes, text) {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function html(kind, className, text) {
  const element = document.createElement(kind);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A number with as many digits as tell something; "–" for none. */
function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const digits = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

/** Seconds as a clock: 4:05, or 1:04:05. */
function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

const STEPS = [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7]];

function linearTicks(top, most) {
  const power = 10 ** Math.floor(Math.log10(top / most));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => top / one <= most);
  const ticks = [];
  for (let at = 0; at <= top * 1.0001; at += step) ticks.push(Number(at.toPrecision(6)));
  return ticks;
}

/** The coarsest steps that give three ticks. */
function logTicks(low, high) {
  let ticks = [];
  for (const steps of STEPS) {
    ticks = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
      const here = steps.map((step) => Number((step * 10 ** power).toPrecision(6)));
      ticks.push(...here.filter((at) => at >= low && at <= high));
    }
    if (ticks.length >= 3) break;
  }
  return ticks;
}

const TIME_STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

function timeTicks(end, most) {
  const step = TIME_STEPS.find((one) => end / one <= most) || 86400 * Math.ceil(end / 86400 / most);
  const ticks = [];
  for (let at = 0; at <= end; at += step) ticks.push(at);
  return ticks;
}

/**
 * One plot. `lines` are {key, label, style, dash, value}, where `value` takes a point and gives a
 * number or null; `log` asks for a logarithmic axis. `onCursor` hears where the reader points.
 */
class Chart {
  constructor(place, { title, unit, lines, log = false }, onCursor) {
    Object.assign(this, { title, unit, lines, log, onCursor });
    this.points = [];
    this.bands = [];
    this.end = 10;
    this.cursor = null;
    const figure = html("figure");
    const caption = html("figcaption");
    caption.append(html("strong", "", title), html("span", "unit", unit));
    this.values = lines.map((line) => {
      const key = html("span", "key");
      const value = html("span", "", "–");
      const stroke = html("i", `${line.style} ${line.dash || ""}`);
      key.append(stroke, `${line.label} `, value);
      caption.append(key);
      return value;
    });
    this.drawing = svg("svg", { role: "img", tabindex: "0" });
    figure.append(caption, this.drawing);
    place.append(figure);
    this.drawing.addEventListener("pointermove", (event) => this.point(event));
    this.drawing.addEventListener("pointerleave", () => this.onCursor(null));
    this.drawing.addEventListener("blur", () => this.onCursor(null));
    this.drawing.addEventListener("keydown", (event) => this.step(event));
  }

  update(points, bands, end) {
    Object.assign(this, { points, bands, end: Math.max(10, end) });
    this.draw();
  }

  x(seconds) {
    return MARGIN.left + (seconds / this.end) * (this.width - MARGIN.left - MARGIN.right);
  }

  y(value) {
    const part = this.log
      ? Math.log(value / this.low) / Math.log(this.high / this.low)
      : value / this.high;
    return HEIGHT - MARGIN.bottom - part * (HEIGHT - MARGIN.top - MARGIN.bottom);
  }

  draw() {
    this.width = Math.max(240, this.drawing.clientWidth);
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    const values = this.points.flatMap((point) =>
      this.lines.map((line) => line.value(point)).filter((value) => value !== null)
    );
    const shown = this.log ? values.filter((value) => value > 0) : values;
    this.empty = !shown.length;
    this.scale(shown);
    this.drawing.replaceChildren(...this.backdrop(), ...this.curves());
    this.tell();
  }

  scale(values) {
    const most = values.reduce((a, b) => Math.max(a, b), 0);
    if (!this.log) {
      this.low = 0;
      this.high = most > 0 ? most * 1.08 : 1;
      return;
    }
    const least = values.reduce((a, b) => Math.min(a, b), most || 1);
    this.low = (least || 1) / 1.15;
    this.high = Math.max((most || 10) * 1.15, this.low * 2.5);
  }

  backdrop() {
    const parts = [];
    const floor = HEIGHT - MARGIN.bottom;
    for (const { begin, end, label } of this.bands) {
      const [from, to] = [this.x(begin), this.x(Math.min(end, this.end))];
      const size = { x: from, y: MARGIN.top, width: Math.max(1, to - from) };
      parts.push(svg("rect", { class: "band", height: floor - MARGIN.top, ...size }));
      if (to - from > 7 * label.length) {
        const place = { x: (from + to) / 2, y: MARGIN.top - 4, "text-anchor": "middle" };
        parts.push(svg("text", place, label));
      }
    }
    const ticks = this.log ? logTicks(this.low, this.high) : linearTicks(this.high, 5);
    for (const tick of this.empty ? [] : ticks) {
      const y = this.y(tick);
      parts.push(svg("line", { class: "grid", x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y }));
      parts.push(svg("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, short(tick)));
    }
    for (const tick of timeTicks(this.end, this.width / 90)) {
      const place = { x: this.x(tick), y: HEIGHT - 6, "text-anchor": tick ? "middle" : "start" };
      if (this.x(tick) < this.width - 20) parts.push(svg("text", place, clock(tick)));
    }
    parts.push(svg("line", { class: "grid", x1: MARGIN.left, x2: this.width - MARGIN.right, y1: floor, y2: floor }));
    if (this.empty) {
      const place = { x: this.width / 2, y: HEIGHT / 2, "text-anchor": "middle" };
      parts.push(svg("text", place, "nothing measured yet"));
    }
    return parts;
  }

  curves() {
    const parts = this.lines.map((line) => {
      let path = "";
      let open = false;
      for (const point of this.points) {
        const value = line.value(point);
        if (value === null || (this.log && value <= 0)) {
          open = false;
          continue;
        }
        const place = `${this.x((point.begin_s + point.end_s) / 2).toFixed(1)} ${this.y(value).toFixed(1)}`;
        // A point on its own is a stroke of no length, which round caps make a dot.
        path += open ? `L${place}` : `M${place}h0.01`;
        open = true;
      }
      return svg("path", { class: `line ${line.style} ${line.dash || ""}`, d: path, "stroke-linecap": "round" });
    });
    const point = this.points[this.cursor];
    if (point) {
      const x = this.x((point.begin_s + point.end_s) / 2);
      parts.push(svg("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
    }
    return parts;
  }

  /** The values at the cursor, or the last ones, in the key and for those who do not see the plot. */
  tell() {
    const said = this.lines.map((line, number) => {
      const at = this.cursor ?? this.points.findLastIndex((point) => line.value(point) !== null);
      const point = this.points[at];
      const value = short(point ? line.value(point) : null);
      this.values[number].textContent = value;
      return `${line.label} ${value}`;
    });
    const when = this.points[this.cursor] ? ` at ${clock(this.points[this.cursor].end_s)}` : "";
    this.drawing.setAttribute("aria-label", `${this.title}, ${this.unit}${when}: ${said.join(", ")}`);
  }

  point(event) {
    const box = this.drawing.getBoundingClientRect();
    const plot = this.width - MARGIN.left - MARGIN.right;
    const seconds = ((event.clientX - box.left - MARGIN.left) / plot) * this.end;
    const found = this.points.findIndex((point) => point.end_s >= seconds);
    this.onCursor(this.points.length ? (found < 0 ? this.points.length - 1 : found) : null);
  }

  step(event) {
    const last = this.points.length - 1;
    const at = this.cursor ?? last + (event.key === "ArrowLeft" ? 1 : 0);
    const places = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: null };
    if (!(event.key in places) || last < 0) return;
    event.preventDefault();
    const place = places[event.key];
    this.onCursor(place === null ? null : Math.min(last, Math.max(0, place)));
  }
}
