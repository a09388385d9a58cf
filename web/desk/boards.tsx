// Housekeeping and maintenance: what is to be done, by its state, with the steps that are legal now.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

import { foldDigits } from '@melmastoon/bff/values';

import { own, say, word } from '../kit/i18n.js';
import { Bdi, Drawer, Ghost, Moment, Num, submitted } from '../kit/parts.js';
import { filter } from './find.js';
import { LastPress } from './pressed.js';
import { press, pressesOf, underWay } from './presses.js';
import { findWork, housekeeping, maintenance, zone, type Task, type WorkOrder } from './views.js';
import { Truth } from './truth.js';
import { propertyId } from './service.js';

type Item = { readonly status: string; readonly roomNumber?: string; readonly can: readonly string[] };

/** Takes a step with a task or a work order, if it is legal now. */
export function move(kind: 'task' | 'work-order', id: string, step: string): boolean {
  const can: readonly string[] = findWork(id)?.can ?? [];
  if (!can.includes(step) || underWay(id) !== undefined) return false;
  void press({ route: kind, step, subject: id });
  return true;
}

const Steps = ({ kind, id, can }: { kind: 'task' | 'work-order'; id: string; can: readonly string[] }) => (
  <p class="row wrap">{can.map((step, i) => <button key={step} class={`little${i > 0 ? ' quiet' : ''}`} data-do={step} disabled={underWay(id) !== undefined} onClick={() => move(kind, id, step)}>{word('step', step)}</button>)}</p>
);

function Lanes<T extends Item>({ states, items, card }: { states: readonly string[]; items: readonly T[]; card: (one: T) => ComponentChildren }) {
  const typed = foldDigits(filter.value.trim());
  const rest = [...new Set(items.map((one) => one.status))].filter((status) => !states.includes(status));
  return (
    <div class="lanes">
      {[...states, ...rest].map((status) => {
        const here = items.filter((one) => one.status === status && (one.roomNumber ?? '').startsWith(typed));
        return <section key={status} class="card flush lane" aria-label={word('status', status)}><header><h2>{word('status', status)} <span class="chip"><Num value={here.length} /></span></h2></header><ul class="rows">{here.map(card)}</ul></section>;
      })}
    </div>
  );
}

function TaskCard({ task }: { task: Task }) {
  return (
    <li class="item" data-item="task" data-id={task.taskId} tabIndex={0}>
      <p class="row wrap"><Bdi ltr class="room">{own(task.roomNumber)}</Bdi><span class="grow">{word('kind', task.kind)}</span>
        {task.priority === 'high' && <span class="chip bad">{say('priority')}</span>}
        {task.neededBy !== undefined && <span class="chip warm">{say('neededby')} <Bdi ltr>{own(task.neededBy)}</Bdi></span>}</p>
      <p class="tiny dim row wrap">{task.assigneeName !== undefined && <Bdi>{task.assigneeName}</Bdi>}{task.minutes !== undefined && <bdi>{say('minutes', { n: task.minutes })}</bdi>}</p>
      <Steps kind="task" id={task.taskId} can={task.can} /><LastPress subject={task.taskId} />
    </li>
  );
}

export function Housekeeping() {
  const { data } = housekeeping.value;
  return <section class="stack" aria-label={say('view.housekeeping')}><Truth of={housekeeping.value} />
    {data === undefined ? <Ghost lines={6} /> : <Lanes states={['waiting', 'pending', 'in_progress', 'done', 'inspected']} items={data.items} card={(task) => <TaskCard key={task.taskId} task={task} />} />}</section>;
}

const severe: Readonly<Record<string, string>> = { critical: 'bad', high: 'bad', medium: 'warm', low: '' };

function OrderCard({ order }: { order: WorkOrder }) {
  return (
    <li class="item" data-item="work-order" data-id={order.workOrderId} tabIndex={0}>
      <p class="row wrap">{order.roomNumber !== undefined && <Bdi ltr class="room">{own(order.roomNumber)}</Bdi>}<Bdi class="grow">{order.title}</Bdi><span class={`chip ${severe[order.severity]}`}>{word('severity', order.severity)}</span></p>
      <p class="tiny dim row wrap"><Moment at={order.openedAt} zone={zone.value} />{order.blocksRoom && <span class="warm">{say('blocks')}</span>}{order.assigneeName !== undefined && <Bdi>{order.assigneeName}</Bdi>}</p>
      <Steps kind="work-order" id={order.workOrderId} can={order.can} /><LastPress subject={order.workOrderId} />
    </li>
  );
}

/** Whether something is being reported. */
export const reporting = signal(false);

function Report() {
  const close = (): void => void (reporting.value = false);
  const send = submitted((typed) => {
    const roomNumber = foldDigits(typed('room').trim());
    close();
    const body = { title: typed('title').trim(), severity: typed('severity'), ...(roomNumber !== '' && { roomNumber }), blocksRoom: typed('blocks') !== '' };
    void press({ route: 'open', step: 'open', subject: `report:${propertyId.peek()}`, body });
  });
  return (
    <Drawer kind="sheet" title={say('report.title')} close={close} closeText={say('close')}>
      <form class="stack" onSubmit={send}>
        <label class="field"><span>{say('report.what')}</span><input name="title" required maxLength={200} autoFocus /></label>
        <label class="field"><span>{say('stay.room')}</span><input name="room" maxLength={16} dir="ltr" inputMode="numeric" /></label>
        <label class="field"><span>{say('report.severity')}</span><select name="severity" defaultValue="medium">{['low', 'medium', 'high', 'critical'].map((one) => <option key={one} value={one} selected={one === 'medium'}>{word('severity', one)}</option>)}</select></label>
        <label class="check"><input type="checkbox" name="blocks" />{say('blocks')}</label>
        <p class="row"><button class="first">{say('report.send')}</button></p>
      </form>
    </Drawer>
  );
}

export function Maintenance() {
  const { data } = maintenance.value;
  const reported = pressesOf(`report:${propertyId.value}`);
  return (
    <section class="stack" aria-label={say('view.maintenance')}>
      <div class="row apart wrap"><Truth of={maintenance.value} /><button class="first" data-do="report" onClick={() => (reporting.value = true)}>{say('report.title')}</button></div>
      {reported.length > 0 && <LastPress subject={`report:${propertyId.value}`} />}
      {data === undefined ? <Ghost lines={6} /> : <Lanes states={['open', 'in_progress', 'resolved']} items={data.items} card={(order) => <OrderCard key={order.workOrderId} order={order} />} />}
      {reporting.value && <Report />}
    </section>
  );
}
