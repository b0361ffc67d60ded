// Copy a text to paste. Without TLS browsers give scripts no clipboard: then the text is selected, to be copied by hand.
"use strict";

function select(text) {
  const range = document.createRange();
  range.selectNodeContents(text);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

async function copy(button, text) {
  select(text);
  let done = false;
  try {
    await navigator.clipboard.writeText(text.textContent);
    done = true;
  } catch {
    done = document.execCommand("copy");
  }
  button.textContent = done ? "Copied" : "Selected";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

document.querySelectorAll("button.copy").forEach((button) => {
  button.hidden = false; // without a script there is nothing that it could do
  button.addEventListener("click", () => copy(button, document.getElementById(button.dataset.copies)));
});
