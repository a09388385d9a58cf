// Runs the solver beside the page, which stays usable meanwhile:
//
//   const worker = new Worker(new URL('./worker.mjs', import.meta.url), { type: 'module' });
//   worker.onmessage = ({ data }) => data.payload ?? data.error ?? data.progress;
//   worker.postMessage(challenge);
//
// To give up, terminate the worker.
import { solve } from './solver.mjs';

self.onmessage = async ({ data: challenge }) => {
  try {
    const payload = await solve(challenge, { onProgress: (progress) => self.postMessage({ progress }) });
    self.postMessage({ payload });
  } catch (error) {
    self.postMessage({ error: String(error?.message ?? error) });
  }
};
