"""Who may do what: roles, keys, the gate before every route, enrolment of hosts, and the audit of readings."""
