"""What somebody should hear of at once: findings and notices, handed to Alertmanager and to one webhook."""
