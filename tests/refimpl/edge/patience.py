"""How long tests wait for other threads and processes: for ever, as far as slow machines go."""

PATIENCE_S = 180
