// What the page server tells under /_up/: the types of internal/local/console, member by member.

export interface Request {
  readonly seq: number;
  readonly id: string;
  readonly traceId: string;
  readonly at: string;
  readonly ms: number;
  readonly service: string;
  readonly method: string;
  readonly route: string;
  readonly target: string;
  readonly body?: string;
  readonly status: number;
  readonly code?: string;
  readonly cache?: string;
  readonly shed?: string;
  readonly degraded?: readonly string[] | null;
  readonly caller: { readonly kind: string; readonly name?: string; readonly tenantId?: string; readonly device?: string; readonly verdict?: string; readonly score?: number };
  readonly calls: number;
  readonly faults?: readonly string[] | null;
}

export interface Limit { readonly class: string; readonly scope: string; readonly limit: number; readonly remaining: number; readonly refused?: boolean; readonly local?: boolean }
export interface Read { readonly cache: string; readonly result: string; readonly by: string; readonly filler?: string; readonly key?: string; readonly tags?: readonly string[]; readonly number?: number; readonly ms: number }
export interface Attempt { readonly hedge?: boolean; readonly status?: number; readonly outcome: string; readonly afterMs: number; readonly ms: number; readonly came: number; readonly fault?: string }
export interface Call { readonly upstream: string; readonly route: string; readonly outcome: string; readonly breaker: string; readonly afterMs: number; readonly ms: number; readonly attempts: readonly Attempt[] | null }
export interface Left { readonly subject: string; readonly at: string; readonly afterMs: number }
export interface Trips { readonly store: string; readonly count: number; readonly failed?: number; readonly ms: number }
export interface Span {
  readonly id: string; readonly parent?: string; readonly depth: number; readonly service: string; readonly name: string;
  readonly afterMs: number; readonly ms: number; readonly failed?: string; readonly facts?: Readonly<Record<string, string>>;
}

export interface Story extends Request {
  readonly text: string;
  readonly limits: readonly Limit[] | null;
  readonly notes: readonly string[] | null;
  readonly reads: readonly Read[] | null;
  readonly upstreams: readonly Call[] | null;
  readonly trips: readonly Trips[] | null;
  readonly events: readonly Left[] | null;
  readonly spans: readonly Span[] | null;
}

export interface Event {
  readonly seq: number;
  readonly id: string;
  readonly subject: string;
  readonly at: string;
  readonly producer: string;
  readonly receivedBy: readonly string[] | null;
  readonly tenantId?: string;
  readonly traceId?: string;
  readonly data: unknown;
}

export interface Outbox {
  readonly service: string; readonly waiting: number; readonly held: number; readonly published: number; readonly lagSeconds: number;
  readonly deadLetters: readonly { readonly id: string; readonly subject: string; readonly at: string; readonly attempts: number; readonly reason: string; readonly retry: string }[] | null;
}

export interface Control { readonly name: string; readonly command: string; readonly method: string; readonly path: string; readonly body?: unknown; readonly on?: boolean }

export interface World {
  readonly at: string;
  readonly upstreams: readonly Upstream[] | null;
  readonly heal: Control;
  readonly events: readonly Control[] | null;
  readonly rung: { readonly now: string; readonly held?: string; readonly controls: readonly Control[] | null };
  readonly campaign: readonly Control[] | null;
  readonly tenants: readonly { readonly tenantId: string; readonly slug: string; readonly name: string; readonly suspended: boolean; readonly control: Control }[] | null;
  readonly devices: readonly Device[] | null;
  readonly limits: readonly (Limit & { readonly service: string; readonly at: string; readonly refillMs: number; readonly fullAt: string; readonly count: number })[] | null;
}

export interface Device {
  readonly deviceId: string; readonly tenantId?: string; readonly status: string; readonly seenAt: string;
  readonly stream?: { readonly since: string; readonly operator: string; readonly control: Control };
}

export interface Upstream {
  readonly name: string; readonly calls: number; readonly rate: number; readonly p99Ms: number;
  readonly breakers: Readonly<Record<string, string>> | null;
  readonly faults: readonly { readonly number: number; readonly since: string; readonly text: string; readonly clear: Control }[] | null;
  readonly controls: readonly Control[] | null;
}

export interface Dashboard { readonly name: string; readonly title: string; readonly panels: readonly Panel[] }
export interface Panel { readonly title: string; readonly row?: string; readonly text?: string; readonly unit: string; readonly queries: readonly string[] | null }
export interface Series { readonly name: string; readonly points: readonly (readonly [number, number])[] | null }
export interface Figures { readonly at: string; readonly panels: readonly (readonly Series[] | null)[] }

export interface State {
  readonly since: string;
  readonly home: string;
  readonly versions: readonly { readonly name: string; readonly version: string }[] | null;
  readonly parts: readonly { readonly name: string; readonly address: string; readonly state: string; readonly more?: string }[] | null;
  readonly findings: readonly { readonly service: string; readonly area: string; readonly check: string; readonly verdict: 'ok' | 'warning' | 'wrong'; readonly found: string; readonly advice?: string }[] | null;
}
