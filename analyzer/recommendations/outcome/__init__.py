"""What a change saved, in money for each unit of work: intervals, placebo checks, and how good predictions were."""
