"""What is measured of runs beside their states: efficiency and traffic."""
