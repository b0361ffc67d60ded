"""May there be more GPUs? A request, its profile and a policy become gates, a verdict and the cheaper offer."""
