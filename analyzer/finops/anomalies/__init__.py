"""What was out of the ordinary: what a team cost beside what such hours did, and which runs made the difference."""
