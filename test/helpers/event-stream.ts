import { type IncomingMessage, request } from 'node:http';
import { eventually } from './client.ts';

/** One message of a stream, as an `EventSource` would dispatch it, with its time. */
export interface StreamMessage {
  readonly event: string;
  readonly id: string;
  readonly data: string;
  readonly at: number;
}

/** An open stream of Server-Sent Events, parsed as the standard requires. */
export interface EventStream {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly messages: readonly StreamMessage[];
  readonly comments: readonly string[];
  /** The id for reconnecting. */
  readonly lastEventId: string;
  /** The delay before reconnecting, ms. */
  readonly retry: number | undefined;
  readonly isOver: boolean;
  /** The body of an answer that is not a stream. */
  readonly text: string;
  /** Of messages named `event`: their data. */
  events<T = Record<string, unknown>>(): readonly T[];
  /** Data of the messages of another name. */
  notices(event: string): readonly unknown[];
  /** Resolves once this many events arrived. */
  got(events: number, timeoutMs?: number): Promise<void>;
  over(timeoutMs?: number): Promise<void>;
  /** Stops reading until `resume`. */
  pause(): void;
  resume(): void;
  close(): void;
}

export interface StreamOptions {
  readonly token: string;
  readonly workspaceId: string;
  readonly query?: string;
  readonly lastEventId?: string;
  /** Starts without reading, not even data sent along with the headers. */
  readonly paused?: boolean;
  /** Counts events and keeps none. */
  readonly discard?: boolean;
}

/** Opens `events/live` of a workspace. Resolves once the headers arrived. */
export async function openEventStream(base: string, options: StreamOptions): Promise<EventStream> {
  const { token, workspaceId, query = '', lastEventId: after } = options;
  const call = request(`${base}/api/v1/workspaces/${workspaceId}/events/live${query}`, {
    agent: false,
    headers: {
      accept: 'text/event-stream',
      authorization: `Bearer ${token}`,
      'x-workspace-id': workspaceId,
      ...(after === undefined ? {} : { 'last-event-id': after }),
    },
  });
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    call.once('response', resolve).once('error', reject).end();
  });
  const messages: StreamMessage[] = [];
  const comments: string[] = [];
  let [rest, text, id, event, data] = ['', '', after ?? '', '', ''];
  let retry: number | undefined;
  let isOver = false;
  const dispatch = () => {
    if (data !== '')
      messages.push({ event: event || 'message', id, data: data.slice(0, -1), at: performance.now() });
    [event, data] = ['', ''];
  };
  const read = (line: string) => {
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (line === '') dispatch();
    else if (colon === 0) comments.push(value);
    else if (field === 'event') event = value;
    else if (field === 'data') data += `${value}\n`;
    else if (field === 'id') id = value;
    else if (field === 'retry') retry = Number(value);
  };
  response.setEncoding('utf8');
  response.once('close', () => {
    isOver = true;
  });
  response.once('error', () => {}); // the stream was cut
  const listen = () =>
    response.on('data', (chunk: string) => {
      if (options.discard) return;
      text += response.statusCode === 200 ? '' : chunk;
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) read(line);
    });
  if (!options.paused) listen();
  const named = (name: string) => messages.filter((message) => message.event === name);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    messages,
    comments,
    get lastEventId() {
      return id;
    },
    get retry() {
      return retry;
    },
    get isOver() {
      return isOver;
    },
    get text() {
      return text;
    },
    events: <T>() => named('event').map((message) => JSON.parse(message.data) as T),
    notices: (name) => named(name).map((message) => JSON.parse(message.data) as unknown),
    async got(events, timeoutMs) {
      await eventually(
        () => named('event').length,
        (count) => count >= events,
        timeoutMs,
      );
    },
    async over(timeoutMs) {
      await eventually(
        () => isOver,
        (over) => over,
        timeoutMs,
      );
    },
    pause: () => void response.pause(),
    resume: () => {
      if (options.paused) listen();
      response.resume();
    },
    close: () => call.destroy(),
  };
}
