// A line between a browser and the platform, which can be cut: a proxy that pages do not see, so that their origin stays what it is.
import { createServer, request } from 'node:http';

export async function line(t) {
  const sockets = new Set();
  let cut = false;
  let deaf = false;
  const server = createServer((asked, answer) => {
    const { hostname, port, pathname, search } = new URL(asked.url);
    const on = request({ hostname, port, path: pathname + search, method: asked.method, headers: asked.headers }, (answered) => {
      if (deaf) return void (answered.destroy(), answer.destroy());
      answer.writeHead(answered.statusCode, answered.headers);
      answered.pipe(answer);
      answered.on('error', () => answer.destroy());
    });
    on.on('error', () => answer.destroy());
    answer.on('close', () => on.destroy());
    asked.pipe(on);
  });
  server.on('connection', (socket) => {
    if (cut) return socket.destroy();
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const sever = () => {
    for (const socket of sockets) socket.destroy();
  };
  t.after(() => {
    sever();
    server.close();
  });
  const address = `127.0.0.1:${server.address().port}`;
  return {
    address,
    flags: [`--proxy-server=http://${address}`, '--proxy-bypass-list=<-loopback>'],
    cut() {
      cut = true;
      sever();
    },
    /** What is asked arrives, and its answers do not. */
    deaf() {
      deaf = true;
      sever();
    },
    mend: () => (cut = deaf = false),
  };
}
