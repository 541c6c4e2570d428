"""The device over HTTP: `cause serve`. Needs the extra `serve`; nothing here is imported before it is asked for."""
