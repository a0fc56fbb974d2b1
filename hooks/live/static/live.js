// Asks for what changed every two seconds and shows it.
"use strict";
(() => {
  const PERIOD_MS = 2000;
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const framed = window.parent !== window;
  if (framed) root.dataset.framed = "yes";

  // --- light and dark, as Locust's page has it -------------------------------------------------

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function theme() {
    const chosen = localStorage.getItem("theme");
    root.dataset.theme = chosen ? chosen : dark.matches ? "dark" : "light";
  }
  theme();
  dark.addEventListener("change", theme);
  window.addEventListener("storage", theme);

  // --- what is known ---------------------------------------------------------------------------

  let known = fresh();
  let cursor = null;
  function fresh() {
    return { run: "", revision: 0, about: null, points: [], marks: [], stages: new Map(), result: "" };
  }

  const named = (columns, values) => Object.fromEntries(columns.map((name, i) => [name, values[i]]));

  function take(answer) {
    if (answer.about) known = { ...fresh(), about: answer.about, run: answer.status.run_id };
    if (!known.about) return;
    known.revision = answer.revision;
    for (const values of answer.points || []) {
      const point = named(known.about.point_columns, values);
      // It stands for all that lie within its time.
      known.points = known.points.filter((one) => one.begin_s < point.begin_s || one.end_s > point.end_s);
      known.points.push(point);
    }
    known.points.sort((a, b) => a.begin_s - b.begin_s);
    for (const values of answer.marks || []) known.marks.push(named(known.about.mark_columns, values));
    for (const values of answer.stages || []) {
      const line = named(known.about.stage_columns, values);
      known.stages.set(line.stage, line);
    }
  }

  /** The held windows, from the marks. */
  function bands(now) {
    return known.marks.flatMap((mark, i) =>
      mark.phase === "hold"
        ? [{ begin: mark.at_s, end: known.marks[i + 1] ? known.marks[i + 1].at_s : now, label: mark.load }]
        : []
    );
  }

  // --- plots -----------------------------------------------------------------------------------

  const ms = (name) => (point) => (point[name] === null ? null : 1000 * point[name]);
  const rate = (name) => (point) => point[name] / (point.end_s - point.begin_s);
  const three = (what, style) => [
    { label: "p50", style, value: ms(`${what}_p50_s`) },
    { label: "p95", style, dash: "dashed", value: ms(`${what}_p95_s`) },
    { label: "p99", style, dash: "dotted", value: ms(`${what}_p99_s`) },
  ];
  const PLOTS = [
    { title: "Time to first token", unit: "ms, log axis, held", log: true, lines: three("ttft", "first-token") },
    { title: "Gap between chunks", unit: "ms, log axis, held", log: true, lines: three("gap", "between-tokens") },
    {
      title: "Output tokens",
      unit: "tokens/s, by when answers ended",
      lines: [{ label: "tokens/s", style: "throughput", value: rate("tokens") }],
    },
    {
      title: "In flight against users",
      unit: "number",
      lines: [
        { label: "in flight", style: "in-flight", value: (point) => point.in_flight },
        { label: "users", style: "users", dash: "dashed", value: (point) => point.users },
      ],
    },
    {
      title: "Successes",
      unit: "requests/s, by when they ended",
      lines: [{ label: "ok", style: "ok", value: rate("ok") }],
    },
    {
      title: "429s and failures",
      unit: "per second",
      lines: [
        { label: "429 (attempts)", style: "limited", dash: "dashed", value: rate("rate_limited") },
        { label: "failed", style: "failed", dash: "dotted", value: rate("failed") },
      ],
    },
    {
      title: "This client's delay",
      unit: "ms, p99, held",
      lines: [
        { label: "event loop late", style: "client", value: ms("loop_lag_p99_s") },
        { label: "first token read late", style: "client", dash: "dashed", value: ms("client_delay_p99_s") },
      ],
    },
    {
      title: "This client's CPU",
      unit: "% of a worker's core, held",
      lines: [
        {
          label: "mean",
          style: "client",
          value: (point) => (point.cpu_mean_ratio === null ? null : 100 * point.cpu_mean_ratio),
        },
      ],
    },
  ];
  let charts = [];
  function makeCharts() {
    charts = PLOTS.map((plot) => new Chart($("plots"), plot, moveCursor));
  }
  function moveCursor(place) {
    if (place === cursor) return;
    cursor = place;
    for (const chart of charts) {
      chart.cursor = place;
      chart.draw();
    }
  }

  // --- words and tables ------------------------------------------------------------------------

  function put(id, text) {
    const element = $(id);
    // Left alone when it says the same, or it would be read out again.
    if (element.textContent !== text) element.textContent = text;
  }

  const PHASES = {
    ramp: "adding or removing users",
    settle: "settling",
    hold: "measuring",
    drain: "waiting for the answers under way",
    idle: "waiting idle",
    cold: "cold start",
  };

  function phaseText(status) {
    if (!status.running) return `The run has ended (${status.end_reason || "unknown"}) after ${clock(status.elapsed_s)}.`;
    const parts = [];
    if (status.phase && status.phase !== "drain" && status.phase !== "cold") {
      const of = status.stages === null ? "" : ` of ${status.stages}`;
      parts.push(`Stage ${status.stage + 1}${of}`, status.load);
    }
    parts.push(PHASES[status.phase] || "starting");
    const whole = status.expected_s ? ` of about ${clock(status.expected_s)}` : "";
    return `${parts.join(" · ")} · ${clock(status.elapsed_s)}${whole}`;
  }

  const bareMs = (seconds) => short(seconds === null ? null : 1000 * seconds);
  const inMs = (seconds) => (seconds === null ? "–" : `${bareMs(seconds)} ms`);
  const percent = (ratio) => (ratio === null ? "–" : `${short(100 * ratio)} %`);
  const star = (text, few) => (few ? `${text}*` : text);

  /** The stage under way, or the last one of which something was held. */
  function currentLine(status) {
    const lines = [...known.stages.values()].filter((line) => line.offered > 0);
    return lines.find((line) => line.stage === status.stage) || lines[lines.length - 1] || null;
  }

  function tiles(status) {
    const line = currentLine(status);
    const where = line ? `at ${line.load}` : "nothing held yet";
    const failed = status.offered ? percent(status.failed / status.offered) : "–";
    const cells = [
      ["TTFT p95", line ? star(inMs(line.ttft_p95_s), line.few_p95) : "–", line ? `p50 ${inMs(line.ttft_p50_s)}, ${where}` : where],
      ["Output tokens/s", line ? short(line.output_tokens_per_s) : "–", where],
      ["In flight", short(status.in_flight), `of ${short(status.users)} users (${short(status.target_users)} wanted)`],
      ["Requests", short(status.offered), `${short(status.ok)} ok, whole run`],
      ["429s", short(status.rate_limited), "attempts, whole run"],
      ["Failed", short(status.failed), `${failed} of the whole run`],
      ["Client late, p99", line ? inMs(line.loop_lag_p99_s) : "–", line ? `CPU ${percent(line.cpu_mean_ratio)} of a core` : where],
    ];
    $("tiles").replaceChildren(
      ...cells.map(([name, value, more]) => {
        const tile = html("div");
        tile.append(html("dt", "", name), html("dd", "value", value), html("dd", "more", more));
        return tile;
      })
    );
  }

  const STATES = { ramp: "adding users", settle: "settling", hold: "measuring", idle: "waiting idle" };
  const COLUMNS = [
    ["load", "load", (line) => line.load],
    ["state", "state", (line) => STATES[line.state] || line.state],
    ["held_s", "held, s", (line) => short(line.held_s)],
    ["offered", "offered", (line) => short(line.offered)],
    ["sent", "sent", (line) => short(line.sent)],
    ["completed", "completed", (line) => short(line.completed)],
    ["failed", "failed", (line) => short(line.failed)],
    ["rate_limited", "429s", (line) => short(line.rate_limited)],
    ["left_out", "left out", (line) => short(line.left_out)],
    ["ttft_p50_s", "TTFT p50, ms", (line) => bareMs(line.ttft_p50_s)],
    ["ttft_p95_s", "TTFT p95, ms", (line) => star(bareMs(line.ttft_p95_s), line.few_p95)],
    ["ttft_p99_s", "TTFT p99, ms", (line) => star(bareMs(line.ttft_p99_s), line.few_p99)],
    ["tpot_p50_s", "TPOT p50, ms", (line) => bareMs(line.tpot_p50_s)],
    ["gap_p95_s", "gap p95, ms", (line) => bareMs(line.gap_p95_s)],
    ["output_tokens_per_s", "tokens/s", (line) => short(line.output_tokens_per_s)],
    ["in_flight", "in flight", (line) => short(line.in_flight)],
    ["loop_lag_p99_s", "client late p99, ms", (line) => bareMs(line.loop_lag_p99_s)],
    ["client_delay_p99_s", "read late p99, ms", (line) => bareMs(line.client_delay_p99_s)],
    ["cpu_mean_ratio", "client CPU, %", (line) => short(line.cpu_mean_ratio === null ? null : 100 * line.cpu_mean_ratio)],
    ["remark", "remark", (line) => line.remark],
  ];
  const WORDS = new Set(["state", "remark"]);

  function stageTable(status) {
    const lines = [...known.stages.values()].sort((a, b) => a.stage - b.stage);
    $("levels").hidden = !lines.length;
    const head = html("tr");
    for (const [key, title] of COLUMNS) {
      const cell = html("th", WORDS.has(key) ? "words" : "", title);
      cell.scope = "col";
      head.append(cell);
    }
    const rows = lines.map((line) => {
      const row = html("tr");
      row.dataset.stage = line.stage;
      row.classList.toggle("current", status.running && line.stage === status.stage);
      row.classList.toggle("spoilt", Boolean(line.remark));
      for (const [key, , text] of COLUMNS) {
        const style = `${WORDS.has(key) ? "words" : ""} ${key === "remark" ? "remark" : ""}`.trim();
        const cell = html("td", style, line.state === "waiting" && !WORDS.has(key) && key !== "load" ? "–" : text(line));
        cell.dataset.name = key;
        cell.dataset.value = line[key] ?? "";
        row.append(cell);
      }
      return row;
    });
    const [top, body] = [html("thead"), html("tbody")];
    top.append(head);
    body.append(...rows);
    $("stages").replaceChildren(top, body);
  }

  function listed(id, items) {
    $(id).replaceChildren(
      ...items.map(([severity, sentence]) => {
        const item = html("li", severity);
        item.append(html("span", "severity", severity), sentence);
        return item;
      })
    );
  }

  function link(href, text) {
    const element = html("a", "", text);
    element.href = href;
    if (framed) element.target = "_blank";
    element.rel = "noopener";
    return element;
  }

  const FILES = ["report.html", "summary.json", "summary.csv", "requests.parquet", "run.json", "stages.json"];
  const fileOf = (run, name) => `./runs/${encodeURIComponent(run)}/${name}`;

  async function result(reports) {
    const run = known.about ? known.about.folder_name : "";
    const made = new Map(reports);
    const others = reports.filter(([name, done]) => name !== run && done);
    $("earlier").hidden = !others.length;
    $("runs").replaceChildren(
      ...others.map(([name]) => {
        const item = html("li");
        item.append(link(fileOf(name, "report.html"), name));
        return item;
      })
    );
    if (!run || !made.has(run)) return;
    $("result").hidden = false;
    if (!made.get(run)) {
      put("files", `The report is being written to ${known.about.folder}`);
      return;
    }
    if (known.result === run) return;
    known.result = run;
    $("files").replaceChildren(
      ...FILES.map((name) => link(fileOf(run, name), name === "report.html" ? "The report" : name)),
      html("span", "note", `in ${known.about.folder}`)
    );
    const answer = await fetch(fileOf(run, "summary.json"));
    if (!answer.ok) return;
    const summary = await answer.json();
    const verdicts = summary.verdicts || [];
    listed("headline", [
      ...(verdicts.length ? [] : [["valid", "nothing speaks against these figures"]]),
      ...verdicts.map((verdict) => [verdict.code <= 1 ? "error" : "invalid", verdict.text]),
      ...(summary.headline || []).map((sentence) => ["", sentence]),
    ]);
  }

  function show(answer) {
    put("trouble", answer.refused ? `The run did not start: ${answer.refused}` : "");
    $("trouble").hidden = !answer.refused;
    if (!answer.status) return;
    const { status } = answer;
    const { about } = known;
    put("title", about.name);
    put("where", `${about.model} at ${about.url}, shape ${about.shape}, ${status.workers} worker${status.workers === 1 ? "" : "s"}`);
    put("phase", phaseText(status));
    put("reason", status.reason || "");
    tiles(status);
    put("against-title", status.running ? "Verdicts so far" : "Seen while it ran");
    if (answer.findings) {
      const more = answer.more_findings ? [["notice", `and ${answer.more_findings} more`]] : [];
      listed("findings", [...answer.findings, ...more]);
      $("against").hidden = !answer.findings.length;
    }
    if (!charts.length) makeCharts();
    const held = bands(status.elapsed_s);
    for (const chart of charts) chart.update(known.points, held, status.elapsed_s);
    stageTable(status);
    if (status.running) $("result").hidden = true;
  }

  // --- asking ----------------------------------------------------------------------------------

  const unseen = () => document.hidden || (framed && window.frameElement.hidden);

  async function ask() {
    if (unseen()) return;
    try {
      const query = `run=${encodeURIComponent(known.run)}&since=${known.revision}`;
      const reply = await fetch(`./live.json?${query}`, { headers: { Accept: "application/json" } });
      if (!reply.ok || reply.redirected) throw new Error("no figures");
      const answer = await reply.json();
      take(answer);
      show(answer);
      if (answer.reports) await result(answer.reports);
      root.dataset.revision = known.revision;
    } catch {
      put("trouble", "Locust does not answer; asking again. If it asks for a login, reload the page.");
      $("trouble").hidden = false;
    }
    fit();
  }

  /** As high as what it holds, so that the page has one scroll bar. */
  function fit() {
    if (framed) window.frameElement.style.height = `${document.body.scrollHeight + 8}px`;
  }

  window.addEventListener("resize", () => {
    for (const chart of charts) chart.draw();
    fit();
  });
  async function again() {
    await ask();
    setTimeout(again, PERIOD_MS);
  }
  again();
})();
