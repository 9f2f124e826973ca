"""Steps of scripts that do not call `step()`."""
