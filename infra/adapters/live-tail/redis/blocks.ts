import { ENVIRONMENTS, type Environment, type LiveEvent, type TailLimits } from '@tributary/core';
import { idOf, type NumberedEvent } from '../feed/numbered-event.ts';

/** Events and characters of a block at most, unless it is of one event. A tail is cut to its limits block by block. */
export const BLOCK_EVENTS = 100;
export const BLOCK_CHARACTERS = 64 * 1024;

/** Events that stand in the stream as one entry: a line each, of a character for the environment and the data. */
export interface Block {
  readonly count: number;
  readonly text: string;
}

const CODES: Readonly<Record<Environment, string>> = { production: 'p', development: 'd' };
const ENVIRONMENT_OF = new Map(ENVIRONMENTS.map((environment) => [CODES[environment], environment]));

/** The newest of the events that fit into the limits; one at least. */
export function newestWithin<E extends LiveEvent>(events: readonly E[], limits: TailLimits): readonly E[] {
  let from = events.length;
  for (let characters = 0; from > 0 && events.length - from < limits.events; from--) {
    characters += events[from - 1]?.data.length ?? 0;
    if (characters > limits.characters && from < events.length) break;
  }
  return from === 0 ? events : events.slice(from);
}

export function blocksOf(events: readonly LiveEvent[]): readonly Block[] {
  const blocks: Block[] = [];
  let lines: string[] = [];
  let characters = 0;
  const close = () => {
    if (lines.length > 0) blocks.push({ count: lines.length, text: lines.join('\n') });
    lines = [];
    characters = 0;
  };
  for (const { environment, data } of events) {
    if (lines.length === BLOCK_EVENTS || characters + data.length > BLOCK_CHARACTERS) close();
    lines.push(CODES[environment] + data);
    characters += data.length;
  }
  close();
  return blocks;
}

/** The events of an entry of the stream, whose id is `<ms>-<number of its last event>`. */
export function eventsIn(id: string, fields: readonly string[]): readonly NumberedEvent[] {
  const values = new Map<string, string>();
  for (let i = 0; i < fields.length; i += 2) values.set(fields[i] ?? '', fields[i + 1] ?? '');
  const [ms = '', last = ''] = id.split('-');
  const [era, lines] = [values.get('era') ?? '', (values.get('text') ?? '').split('\n')];
  const first = Number(last) - lines.length + 1;
  return lines.map((line, index) => {
    const number = first + index;
    const environment = ENVIRONMENT_OF.get(line.charAt(0)) ?? 'production';
    return { id: idOf(era, ms, number), era, number, environment, data: line.slice(1) };
  });
}
