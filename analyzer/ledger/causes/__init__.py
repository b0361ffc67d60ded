"""One file a finding: Thresholds and a pure detect()."""
