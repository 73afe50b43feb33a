"""The HTTP side of the gateway: servers, routes, bodies and limits on what clients send."""
