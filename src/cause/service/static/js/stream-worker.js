// A shared worker: one stream of events for all tabs with the same token. A browser opens six connections to a service
// over HTTP/1.1, so a stream for each tab would block the seventh tab and everything that it asks for.

import { openStream } from "./stream.js";

const SILENT_MS = 90_000; // a tab that is open gives a sign of life every 20 seconds
const streams = new Map(); // by token: { ports: Map of port to when it was last heard, state, stop }

function open(secret) {
  const stream = { ports: new Map(), state: null, stop: () => {} };
  const send = (message) => stream.ports.forEach((_, port) => port.postMessage(message));
  const become = (state) => {
    stream.state = state;
    send(state);
  };
  streams.set(secret, stream);
  stream.stop = openStream(secret, {
    event: (kind, data) => send({ what: "event", kind, data }),
    up: () => become({ what: "up" }),
    down: () => become({ what: "down" }),
    busy: (why) => become({ what: "busy", why }),
    refused: (status) => {
      send({ what: "refused", status });
      streams.delete(secret);
    },
  });
  return stream;
}

function leave(port) {
  for (const [secret, stream] of streams) {
    if (stream.ports.delete(port) && stream.ports.size === 0) {
      stream.stop();
      streams.delete(secret);
    }
  }
}

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.what === "leave") return leave(port);
    if (data.what === "join") {
      leave(port);
      const stream = streams.get(data.secret) ?? open(data.secret);
      stream.ports.set(port, Date.now());
      if (stream.state) port.postMessage(stream.state);
    }
    for (const stream of streams.values()) if (stream.ports.has(port)) stream.ports.set(port, Date.now());
  };
};

setInterval(() => {
  for (const stream of [...streams.values()])
    for (const [port, heard] of [...stream.ports]) if (Date.now() - heard > SILENT_MS) leave(port);
}, SILENT_MS / 3);
