import { isMainThread } from 'node:worker_threads';

/**
 * Loaded into a command by NODE_OPTIONS: certain events end the thread that works on them, as a fault of a stage would:
 * the one called `Deadly Validate` where a stage first reads it, the one with the message id `Deadly Route` where its
 * delivery is written.
 */
const [DEADLY_READ, DEADLY_WRITTEN] = ['"Deadly Validate"', 'Deadly Route'];

if (!isMainThread) {
  const { parse, stringify } = JSON;
  JSON.parse = (text, ...rest) => {
    if (typeof text === 'string' && text.startsWith('{') && text.includes(DEADLY_READ)) exhaustHeap();
    return parse(text, ...rest);
  };
  JSON.stringify = ((value: unknown, ...rest: []) => {
    const { rule_id, message_id } = (value ?? {}) as { rule_id?: unknown; message_id?: unknown };
    if (typeof rule_id === 'string' && message_id === DEADLY_WRITTEN) process.exit(9);
    return stringify(value, ...rest);
  }) as typeof JSON.stringify;
}

function exhaustHeap(): never {
  const held: unknown[] = [];
  for (;;) held.push(new Array(10_000).fill({}));
}
