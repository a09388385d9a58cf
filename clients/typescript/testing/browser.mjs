// Chromium without a window, and a driver for its pages (https://chromedevtools.github.io/devtools-protocol, over pipes).
import { spawn } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/**
 * Starts a browser; `ended` fails when it ends before the test. It says that it is Firefox, and its client hints say otherwise: the platform of the
 * tests counts that as suspicious, so that guests meet a challenge. Headless browsers by their own name are refused without one.
 */
export function chromium(t, ...more) {
  const home = mkdtempSync(join(tmpdir(), 'melmastoon-chromium-'));
  const args = [
    '--headless', '--disable-gpu', '--no-first-run', '--no-default-browser-check', '--disable-background-networking', '--disable-component-update', '--disable-sync',
    '--disable-extensions', '--disable-breakpad', '--no-sandbox', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * 127.0.0.1', '--hide-scrollbars',
    '--user-agent=Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0', `--user-data-dir=${join(home, 'profile')}`, '--remote-debugging-pipe', ...more,
  ];
  const program = find('chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome');
  let kill;
  const start = () => {
    const running = spawn(program, args, { detached: true, stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'], env: { ...process.env, HOME: home } });
    const ended = new Promise((_, reject) => {
      running.once('error', reject);
      running.once('exit', (code, signal) => reject(new Error(`Chromium ended: ${code ?? signal}`)));
    });
    ended.catch(() => undefined); // also when the test ends it
    kill = async () => {
      try {
        process.kill(-running.pid, 'SIGKILL'); // with all of its processes
      } catch {
        // it has ended
      }
      await ended.catch(() => undefined);
    };
    return { ended, ...driver(running.stdio[3], running.stdio[4], ended) };
  };
  t.after(async () => {
    await kill();
    rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });
  /** Ends it as a computer that loses its power does, and starts it with what the disk has. */
  const again = async () => {
    await kill();
    return { ...start(), again };
  };
  return { ...start(), again };
}

function driver(to, from, ended) {
  to.on('error', () => undefined); // `ended` tells
  const waiting = new Map();
  const errors = []; // what pages threw or wrote to the console as an error
  let id = 0;
  let rest = '';
  from.setEncoding('utf8').on('data', (piece) => {
    const texts = (rest + piece).split('\0');
    rest = texts.pop();
    for (const { id, result, error, method, params } of texts.map((text) => JSON.parse(text))) {
      if (method === 'Runtime.exceptionThrown') errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
      if (method === 'Runtime.consoleAPICalled' && params.type === 'error') errors.push(params.args.map((a) => a.value ?? a.description).join(' '));
      const { resolve, reject } = waiting.get(id) ?? {};
      waiting.delete(id);
      if (error === undefined) resolve?.(result);
      else reject(new Error(error.message));
    }
  });
  const send = (method, params = {}, sessionId = undefined) => {
    to.write(JSON.stringify({ id: ++id, method, params, sessionId }) + '\0');
    return Promise.race([ended, new Promise((resolve, reject) => waiting.set(id, { resolve, reject }))]);
  };
  /** Opens a tab, in a context of its own if one is named. */
  const open = async (url, browserContextId = undefined) => {
    const { targetId } = await send('Target.createTarget', { url: 'about:blank', browserContextId });
    const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true });
    const tell = (method, params) => send(method, params, sessionId);
    await tell('Runtime.enable');
    await tell('Page.enable');
    await tell('Page.navigate', { url });
    /** The value of an expression in the page. */
    const value = async (expression) => {
      const { result, exceptionDetails } = await tell('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
      if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    };
    /** Waits until an expression is true of the page, over reloads and navigations, and returns its value. What never comes true is named in the error. */
    const until = async (expression, patience = 240_000) => {
      for (const end = Date.now() + patience; Date.now() < end; ) {
        // A page that is left in the middle of it has no answer.
        const found = await value(`(() => { try { return ${expression} } catch { return undefined } })()`).catch(() => undefined);
        if (found) return found;
        await Promise.race([ended, new Promise((again) => setTimeout(again, 50))]);
      }
      throw new Error(`it never became true: ${expression}, of ${await value(`location.href + '\\n' + document.body.innerText.slice(0, 2000)`)}`);
    };
    const picture = async (width, height) => {
      await tell('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
      return Buffer.from((await tell('Page.captureScreenshot', { format: 'png' })).data, 'base64');
    };
    return { tell, value, until, picture, go: (url) => tell('Page.navigate', { url }), close: () => send('Target.closeTarget', { targetId }) };
  };
  return { open, errors, tell: send };
}

function find(...names) {
  const places = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/usr/local/bin', '/opt/homebrew/bin'];
  for (const name of names) {
    for (const place of places) {
      try {
        accessSync(join(place, name), constants.X_OK);
        return join(place, name);
      } catch {
        // not here
      }
    }
  }
  throw new Error('no Chromium was found: `melmastoon doctor --install` installs it, or says how');
}
