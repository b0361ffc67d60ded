// Keep what was written into a form whose session had ended: it is there again once somebody has logged in. Only in this
// tab, only until then, and not after logging out.
"use strict";

const WRITTEN = "gpuledger-written";
const NOT_KEPT = ["hidden", "password", "submit", "button"];
const forms = [...document.querySelectorAll('form[method="post"]')].filter((form) => form.elements.csrf);
const place = (form) => new URL(form.getAttribute("action"), location).pathname; // a field may be called action
const fields = (form) => [...form.elements].filter((each) => each.name && !NOT_KEPT.includes(each.type));
const names = (pairs) => pairs.map(([name]) => name).join();

function again(form, written) {
  fields(form).forEach((each, at) => { each.value = written[at][1]; });
  for (let each = form.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
  const said = document.createElement("p");
  said.role = "status";
  said.textContent = "Your session had ended: what you wrote is here again, and was not sent.";
  form.prepend(said);
  fields(form).at(-1)?.focus();
}

for (const form of forms) {
  form.addEventListener("submit", () => {
    sessionStorage.removeItem(WRITTEN);
    const written = fields(form).map((each) => [each.name, each.value]);
    if (written.length) {
      sessionStorage.setItem(WRITTEN, JSON.stringify({ place: place(form), token: form.elements.csrf.value, written }));
    }
  });
}

const kept = JSON.parse(sessionStorage.getItem(WRITTEN));
const own = kept ? forms.filter((form) => place(form) === kept.place) : [];
if (own.length) {
  sessionStorage.removeItem(WRITTEN);
  // With the token that it was sent with, the session goes on: it was kept, or refused for what it says.
  const form = own.find((each) => names(fields(each).map((one) => [one.name])) === names(kept.written));
  if (form && form.elements.csrf.value !== kept.token) again(form, kept.written);
}
