/** One message of a stream of server-sent events. */
export interface Message {
  readonly id: string;
  readonly event: string;
  readonly data: string;
  /** How long to wait before connecting again, in milliseconds. */
  readonly retry?: number;
}

/** Reads server-sent events from pieces of text, however they are cut. */
export class Parser {
  #rest = '';
  #event = '';
  #data: string[] = [];
  #id = '';
  #retry: number | undefined;

  /** Returns the messages that the piece completes. */
  push(piece: string): Message[] {
    const messages: Message[] = [];
    let text = this.#rest + piece;
    // A carriage return at the end may be the first half of a line break.
    const held = text.endsWith('\r') ? '\r' : '';
    text = text.slice(0, text.length - held.length);
    const lines = text.split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? '') + held;
    for (const line of lines) {
      if (line !== '') {
        this.#field(line);
        continue;
      }
      if (this.#event !== '' || this.#data.length > 0 || this.#retry !== undefined) messages.push(this.#message());
    }
    return messages;
  }

  #field(line: string): void {
    const colon = line.indexOf(':');
    if (colon === 0) return; // a comment
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'event') this.#event = value;
    else if (name === 'data') this.#data.push(value);
    else if (name === 'id') this.#id = value;
    else if (name === 'retry' && /^\d+$/.test(value)) this.#retry = Number(value);
  }

  #message(): Message {
    const message = { id: this.#id, event: this.#event || 'message', data: this.#data.join('\n') };
    const retry = this.#retry;
    this.#event = '';
    this.#data = [];
    this.#id = '';
    this.#retry = undefined;
    return retry === undefined ? message : { ...message, retry };
  }
}
