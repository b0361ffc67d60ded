"""How answers are given: on a terminal, as HTML, over HTTP, by mail, as alarms, as metrics, to an assistant."""
