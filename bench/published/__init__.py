"""A second generator of labelled runs, by another hand than the rules: published measurements, and sensors that lie."""
