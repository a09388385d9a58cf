// The keys of the service's map, with the operator's own.
import { shortcuts } from '../kit/shortcuts.js';
import { desk, explain, phase } from './service.js';

export async function readShortcuts(): Promise<void> {
  try {
    shortcuts.value = (await desk.call('listShortcuts')).data.shortcuts;
    document.documentElement.dataset.keys = 'known';
  } catch (error) {
    explain(error);
    setTimeout(() => phase.peek() === 'open' && void readShortcuts(), 15_000);
  }
}
