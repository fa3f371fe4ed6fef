import { DROPPED } from './call.ts';
import { type Fields, isObject, objectOf, withoutAbsent } from './fields.ts';

/** What a batch says of all its events. */
export interface Frame {
  /** ISO 8601, by the client's clock: when it sent the request. */
  readonly sentAt?: unknown;
  readonly context?: unknown;
  readonly integrations?: unknown;
  /** All else that it says of itself, such as an id or a number of its own; never empty. */
  readonly others?: Fields;
}

/** What stands beside the calls of a batch. */
export function frameOf(fields: Fields): Frame {
  const { sentAt, context: said, integrations, ...besides } = withoutAbsent(fields);
  const isContext = isObject(objectOf(said ?? {}));
  const context = isContext ? said : undefined;
  const rest = isContext ? besides : { ...besides, context: said };
  const others = Object.entries(rest).filter(([name]) => !DROPPED.includes(name));
  return {
    sentAt,
    context,
    integrations,
    ...(others.length === 0 ? {} : { others: Object.fromEntries(others) }),
  };
}

/**
 * Whether a batch of so many calls would be too large if each of them said what its frame says: one event, or all of
 * them. It is found out once, before any event has it: a body of 4 MiB could be made to weigh thousands of times that.
 */
export function isTooLarge(
  frameBytes: number,
  calls: number,
  limits: { readonly eventBytes: number; readonly bodyBytes: number },
): boolean {
  return frameBytes > limits.eventBytes || frameBytes * calls > limits.bodyBytes;
}

/** What a frame says of its events, bytes of JSON. */
export function bytesOf({ context, integrations, others }: Frame): number {
  return [context, integrations, others]
    .filter((part) => part !== undefined)
    .reduce<number>((sum, part) => sum + Buffer.byteLength(JSON.stringify(part)), 0);
}
