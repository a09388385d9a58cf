// How the generated clients reach the running platform, and what an operator's requests carry.
import assert from 'node:assert/strict';

import { Device, memoryStore } from '../../../clients/typescript/dist/backoffice/index.js';

const { MELMASTOON_CONSUMER_URL, MELMASTOON_BACKOFFICE_URL, MELMASTOON_SIM_URL } = process.env;
export const guests = `${MELMASTOON_CONSUMER_URL}/bff/consumer/v1`;
export const staff = `${MELMASTOON_BACKOFFICE_URL}/bff/backoffice/v1`;

const store = memoryStore();
let token: string | undefined;

/** A fetch that proves the device's key, and signs in first. */
export const proved: typeof fetch = async (input, init) => {
  token ??= await signIn();
  const request = new Request(input, init);
  for (const [name, value] of Object.entries(await proof(request.method, request.url, token))) request.headers.set(name, value);
  return fetch(request);
};

async function proof(method: string, url: string, token?: string): Promise<Record<string, string>> {
  const device = await Device.open(store);
  const sent = { DPoP: await device.prove({ method, url, token }), 'X-Device-Id': device.id, 'X-App-Version': '1.0.0', 'X-App-Platform': 'linux' };
  return token === undefined ? sent : { ...sent, Authorization: `DPoP ${token}` };
}

async function signIn(): Promise<string> {
  const url = `${MELMASTOON_SIM_URL}/iam/api/v1/auth/sign-in`;
  const device = await Device.open(store);
  const headers = { ...(await proof('POST', url)), 'Content-Type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ username: 'parwana', deviceId: device.id }) });
  const { accessToken } = (await answer.json()) as { accessToken?: string };
  assert.ok(accessToken, `sign-in: ${answer.status}`);
  return accessToken;
}

async function read<T>(answer: Response): Promise<T> {
  return { data: await answer.json(), status: answer.status, headers: answer.headers } as T;
}

export const consumer = async <T>(path: string, init: RequestInit): Promise<T> => read(await fetch(guests + path, init));
export const backoffice = async <T>(path: string, init: RequestInit): Promise<T> => read(await proved(staff + path, init));
