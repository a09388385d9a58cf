// The line to the house's news: how the stream stands, what is read again because of it, and since when nothing was heard. README.md tells it as a story.
import { computed, signal } from '@preact/signals';

import { StreamRefused, type Channel, type StreamEvent } from '@melmastoon/bff/backoffice';

import { say } from '../kit/i18n.js';
import { toast } from '../kit/parts.js';
import { askAgain, hear } from './presses.js';
import { desk, enter, explain, now, phase, propertyId, readSession, reason, session, signOut } from './service.js';
import { day, refetch, viewNames, viewsOf, viewsOfChannels } from './views.js';

export type Phase = 'connecting' | 'catching-up' | 'live' | 'proving' | 'waiting' | 'superseded' | 'refused';

export interface Line {
  readonly phase: Phase;
  /** By this computer's clock: when the service was heard last. */
  readonly heard?: number;
  readonly retryAt?: number;
}
export const line = signal<Line>({ phase: 'connecting' });
/** The channels whose news were lost and whose views are being read again. */
export const gap = signal<readonly Channel[]>([]);
const online = signal(navigator.onLine);
const down = signal<number | undefined>(undefined);

/** Since when there is no line; undefined while there is one. A stream that ends is resumed within moments, and is no cut line. */
export const cutSince = computed(() => {
  if (phase.value !== 'open') return undefined;
  void now.value; // it is looked at anew with each second
  if (!online.value) return down.value ?? Date.now();
  return down.value !== undefined && Date.now() - down.value > 4_000 ? down.value : undefined;
});

/** What was heard of late, without what this desk did itself. The newest first. */
export const news = signal<readonly StreamEvent[]>([]);

function onEvent(event: StreamEvent): void {
  if (event.propertyId !== undefined && event.propertyId !== propertyId.peek()) return;
  hear(event);
  if (event.type !== 'dashboard.changed') news.value = [event, ...news.peek()].slice(0, 80);
  switch (event.type) {
    case 'dashboard.changed':
      return void refetch(viewsOf(event.data.parts));
    case 'alert.raised':
      toast(say('news.alert'));
      return void refetch(['alerts']);
    case 'suggestion.created': case 'suggestion.expired': case 'suggestion.decided':
      return void refetch(['suggestions']);
    case 'alert.resolved': case 'alert.acknowledged':
      return void refetch(['alerts']);
    case 'session.revoked': case 'session.signed_out': case 'session.replaced': case 'session.outgrown':
      return void signOut(say(`ended.${event.type.slice('session.'.length)}`));
    case 'membership.changed': case 'flags.changed': case 'tenant.suspended': case 'tenant.reinstated':
      return void readSession().then(() => refetch(), explain);
  }
}

async function onGap(channels: readonly Channel[]): Promise<void> {
  gap.value = [...new Set([...gap.peek(), ...channels])];
  if (channels.includes('session')) await readSession().catch(explain);
  await Promise.all([refetch(viewsOfChannels(channels)), channels.includes('locks') ? askAgain() : undefined]);
  gap.value = gap.peek().filter((channel) => !channels.includes(channel));
}

let last: string | undefined;
let following: AbortController | undefined;

/** Follows the stream of this device, in this window; a window that followed it before is told so. */
export async function follow(): Promise<void> {
  following?.abort();
  const mine = (following = new AbortController());
  const stream = desk.stream({
    onEvent,
    onGap: (channels) => void onGap(channels),
    onState: (state) => {
      if (mine !== following) return;
      last = stream.lastEventId;
      const heard = state.phase === 'live' || state.phase === 'catching-up' ? Date.now() : line.peek().heard;
      line.value = { phase: state.phase, ...(heard === undefined ? {} : { heard }), ...(state.phase === 'waiting' ? { retryAt: Date.now() + state.retryInMs } : {}) };
      if (state.phase === 'live') {
        if (down.peek() !== undefined) void askAgain();
        down.value = undefined;
      } else if (state.phase === 'waiting') down.value ??= Date.now();
    },
    poll: () => refetch(),
    silence: 40_000,
    ...(last === undefined ? {} : { lastEventId: last }),
  });
  try {
    if ((await stream.follow(mine.signal)) === 'superseded') line.value = { ...line.peek(), phase: 'superseded' };
  } catch (error) {
    if (mine !== following) return;
    line.value = { ...line.peek(), phase: 'refused' };
    if (error instanceof StreamRefused && error.status === 401) await signOut(say('ended.revoked'));
    else reason.value = explain(error);
  }
}

/** Begins anew with another operator or property: nothing of before is resumed. */
export function begin(): void {
  last = undefined;
  void follow();
}

// A browser knows at once that its network has gone or come back; a stream learns of it later.
addEventListener('offline', () => {
  online.value = false;
  down.value ??= Date.now();
});
addEventListener('online', () => {
  online.value = true;
  if (phase.peek() === 'unreached') void enter();
  if (phase.peek() === 'open') void follow();
});

// A key that is under way, or without an answer, is asked for now and then: its news may have been lost with an instance.
setInterval(() => phase.peek() === 'open' && line.peek().phase === 'live' && void askAgain(), 15_000);

// The day of the house ends at its own midnight: everything is of another day then.
let midnight: ReturnType<typeof setTimeout> | undefined;
day.subscribe((of) => {
  clearTimeout(midnight);
  if (of !== undefined) midnight = setTimeout(() => void refetch(viewNames), Math.min(Math.max(Date.parse(of.endsAt) - now.peek(), 1_000), 0x7fffffff));
});

session.subscribe((one) => {
  if (one !== undefined) return;
  following?.abort();
  following = undefined;
  news.value = [];
});
