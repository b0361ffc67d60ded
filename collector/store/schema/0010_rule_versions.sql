-- What each version of the rules was made of: rows are added and never changed, so that a finding, and what people said of
-- it, can be read by the version of its own rule however long ago it was judged.
CREATE TABLE rule_versions (
    rules_version VARCHAR PRIMARY KEY, -- as every hour of the ledger, and every judgement, names it
    versions VARCHAR NOT NULL          -- a JSON object: the version of each rule of findings, by its name
);
