/* What Django's admin leaves out for users of a keyboard or a screen reader. */

"use strict";

// A table in a page scrolls sideways on a narrow screen: also by the keyboard.
for (const group of document.querySelectorAll(".inline-group")) {
  group.tabIndex = 0;
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", group.querySelector("h2, h3")?.textContent.trim() ?? "");
}

// A moment has two fields, a day and a time, and one label.
for (const input of document.querySelectorAll(".datetime input:not([aria-label])")) {
  const label = input.closest(".form-row")?.querySelector("label, legend")?.textContent.trim();
  const part = input.previousSibling?.textContent.trim();
  input.setAttribute("aria-label", [label, part].filter(Boolean).join(" "));
}
