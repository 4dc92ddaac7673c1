"""Names that other packages import from MLflow's inside."""
