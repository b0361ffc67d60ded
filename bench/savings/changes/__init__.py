"""What may be changed on the site, and what comes of it: one file a subject, each with the physics it stands on."""
