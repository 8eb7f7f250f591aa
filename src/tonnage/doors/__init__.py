"""What every door to a live cluster needs: writing Bindings, Events and the log, and serving over HTTP."""
