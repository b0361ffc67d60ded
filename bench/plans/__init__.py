"""Problems of tasks on nodes by seed, and their best plans by trying everything."""
