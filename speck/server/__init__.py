"""The server process: WSGI server, TLS and tokens, REST interface, middleware and dashboard."""
