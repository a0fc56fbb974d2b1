// Runs in Locust's page before its own script: groups and explains our options in its form, and
// shows our live page in the tab that was declared to it. Only names of roles and fields are relied
// on; where they are missing, Locust's page is as it was.
"use strict";
(() => {
  const args = window.templateArgs;
  if (!args) return;
  const groups = args.swarmgauge_form || [];
  const TAB = "Live";
  const help = new Map();
  const headings = new Map();
  const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());

  const options = args.extra_options || {};
  const ours = new Set(groups.flatMap((group) => group.options));
  const ordered = {};
  for (const name of Object.keys(options)) if (!ours.has(name)) ordered[name] = options[name];
  for (const group of groups) {
    const names = group.options.filter((name) => name in options);
    if (names.length) headings.set(camel(names[0]), group.title);
    for (const name of names) {
      // Beside the name the text would be cut off.
      help.set(camel(name), options[name].help_text);
      ordered[name] = { ...options[name], help_text: "" };
    }
  }
  args.extra_options = ordered;

  function added(kind, className, text) {
    const element = document.createElement(kind);
    element.className = className;
    element.textContent = text;
    return element;
  }

  let number = 0;
  function explain(field) {
    const name = field.name;
    if (field.dataset.explained || !help.has(name)) return;
    field.dataset.explained = "yes";
    const box = field.closest(".MuiFormControlLabel-root") || field.closest(".MuiFormControl-root");
    if (!box) return;
    const text = added("p", "swarmgauge-help", help.get(name));
    text.id = `swarmgauge-help-${++number}`;
    field.setAttribute("aria-describedby", text.id);
    if (box.matches(".MuiFormControlLabel-root")) box.after(text);
    else box.append(text);
    if (headings.has(name)) box.before(added("h3", "swarmgauge-group", headings.get(name)));
  }

  let frame = null;
  function show() {
    const tabs = [...document.querySelectorAll('[role="tab"]')];
    const tab = tabs.find((one) => one.textContent.trim() === TAB);
    if (!tab) return;
    const selected = tab.getAttribute("aria-selected") === "true";
    const place = tab.closest(".MuiContainer-root") || tab.closest('[role="tablist"]').parentElement;
    if (selected && (!frame || frame.parentElement !== place)) {
      frame = document.createElement("iframe");
      frame.className = "swarmgauge-frame";
      frame.title = "Live figures of the run";
      frame.src = "./swarmgauge/live";
      place.append(frame);
    }
    if (frame && frame.hidden === selected) frame.hidden = !selected;
  }

  let asked = false;
  function look() {
    asked = false;
    document.querySelectorAll("form input[name], form select[name]").forEach(explain);
    show();
  }
  new MutationObserver(() => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(look);
  }).observe(document.body, {
    subtree: true,
    childList: true,
    attributes: true,
    attributeFilter: ["aria-selected"],
  });
})();
